"""Measurements a person asks for: how fast the house answers, and on what it computes."""


class BenchError(Exception):
    """One line for a person: what could not be measured, and what to do."""
