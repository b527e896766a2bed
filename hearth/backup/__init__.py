"""What is precious in a house, as one encrypted file, and back again."""


class BackupError(Exception):
    """One line for a person: what of a backup or a restore failed, and what to do."""
