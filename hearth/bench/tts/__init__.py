"""How soon speech starts, whether it ever stutters, and what a machine gives for that."""
