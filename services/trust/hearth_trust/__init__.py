"""Serves the trust page: it gives devices the house's certificate and tests whether it works."""
