"""Clients of a house's services, shared by the smoke tests and the benchmarks.

Every call raises ClientError where the server refuses it, or does not answer in time.
"""


class ClientError(Exception):
    """One line for a person: which call failed, and how."""


def reason(error: Exception) -> str:
    """Return an error's text, or its type where it has none."""
    return str(error) or type(error).__name__
