"""The one exception of this package."""


class LoginError(Exception):
    """Says in one line what is wrong, where, and what to do; never holds a secret."""
