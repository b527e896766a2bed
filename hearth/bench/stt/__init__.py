"""How soon after the last word its text arrives, and what that costs the machine."""
