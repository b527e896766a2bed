"""Starts Open WebUI with the house's settings, and with nothing secret in its environment block."""
