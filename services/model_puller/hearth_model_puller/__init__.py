"""Keeps the models of one Ollama in step with the house's model list."""


class PullerError(Exception):
    """One line: what is wrong, where, and what to do."""
