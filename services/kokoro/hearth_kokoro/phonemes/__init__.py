"""Conversion of text to Kokoro's phonemes."""
