"""Clients of a house's services, shared by the smoke tests and the benchmarks.

Every call raises ClientError where the server refuses it, or does not answer in time.
"""


class ClientError(Exception):
    """One line for a person: which call failed, and how."""
