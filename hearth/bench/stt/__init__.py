"""How soon after the last word its text is there, and what a machine gives for that."""

# What a run consists of, in its order.
PARTS = ("live", "file", "crowd", "vad", "wer", "memory")
USUAL = PARTS[:-1]
"""The memory loop is an hour of speech: only who names it gets it."""
