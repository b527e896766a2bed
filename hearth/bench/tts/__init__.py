"""How soon speech starts, whether it ever stutters, and what a machine gives for that."""

# What a run consists of, in its order.
PARTS = ("phrase", "way", "paragraph", "crowd", "long", "formats")
