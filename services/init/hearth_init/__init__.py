"""Prepare a house of containers: its secrets, its certificates, and who may read which of them."""
