"""How soon speech starts, whether it ever stutters, and what it costs the machine."""
