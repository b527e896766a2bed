"""Measurements a person asks for: how fast the house answers, and on what it computes."""
