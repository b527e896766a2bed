"""What the benches of servers share: a server, its health meanwhile, ratios, and reports."""
