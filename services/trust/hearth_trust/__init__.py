"""Hands the house's certificate to devices, and shows whether it works there."""
