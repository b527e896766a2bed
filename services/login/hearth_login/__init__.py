"""The house's login: tells Caddy for each request which consumer sent it, or rejects it."""
