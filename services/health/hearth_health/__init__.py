"""Serves the house's page: what is there to open, how it is, and what to do about what is not."""
