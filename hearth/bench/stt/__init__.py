"""How soon after the last word its text arrives, and what that costs the machine."""

# The parts of a run, in its order.
PARTS = ("live", "file", "crowd", "vad", "wer", "memory")
USUAL = PARTS[:-1]
"""The part memory takes an hour: it runs only when it is named."""
