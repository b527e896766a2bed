"""Reads a text as a person would: what to say for each part of it, and where one may pause."""
