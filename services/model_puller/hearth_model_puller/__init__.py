"""Keeps the models of one Ollama as the house's model list says, for as long as it runs."""


class PullerError(Exception):
    """One line for a person: what is wrong, where, and what to do."""
