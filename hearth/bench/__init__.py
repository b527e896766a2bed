"""Measurements on request: how fast the house answers, and on what it computes."""
