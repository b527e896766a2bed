"""What a smoke test can say besides passed and failed.

A skip hides; these two stand in the receipt with their reason.
"""


class Pending(Exception):
    """The house is still becoming ready: neither passed nor failed, and `percent` of the way."""

    def __init__(self, percent: int, reason: str) -> None:
        """Take how far it is, 0 to 100, and what is being waited for."""
        super().__init__(reason)
        self.percent = percent


class NotMeasured(Exception):
    """This machine or house cannot tell; the text says why."""
