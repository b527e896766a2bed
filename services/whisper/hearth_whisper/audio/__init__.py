"""Decoding: uploaded files and raw PCM become mono samples at 16 kHz."""
