"""All data and secrets of a house in one encrypted file, and their restore."""


class BackupError(Exception):
    """One line for a person: what failed in a backup or a restore, and what to do."""
