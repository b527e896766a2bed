"""What the chat costs: the first word as a page sees it, against the gateway asked directly."""
