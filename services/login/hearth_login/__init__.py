"""The house's login: says for each request that Caddy asks about who it is, or that it may not."""
