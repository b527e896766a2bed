"""Speaks a text piece by piece: what the next piece is, who is next, how pieces join."""
