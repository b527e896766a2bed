"""The one exception of this package."""


class PatchError(Exception):
    """One line for a person: which file, what was looked for, and what to do."""
