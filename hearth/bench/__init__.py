"""Measurements on request: how fast the house answers, and on what it computes."""

# The parts of a run, in its order.
TTS_PARTS = ("phrase", "caddy", "paragraph", "crowd", "long", "formats")
STT_PARTS = ("live", "file", "crowd", "vad", "wer", "memory")
STT_USUAL = STT_PARTS[:-1]
"""The part memory takes an hour: it runs only when it is named."""
