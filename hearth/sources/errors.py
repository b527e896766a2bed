"""The one exception of this package."""


class SourceError(Exception):
    """One line for a person: which source or program, what is wrong, what to do."""
