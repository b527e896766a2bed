"""How soon speech starts, whether it ever stutters, and what it costs the machine."""

# The parts of a run, in its order.
PARTS = ("phrase", "caddy", "paragraph", "crowd", "long", "formats")
