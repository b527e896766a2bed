"""Proposals to change the house: what a person approves is what is carried out, once.

A program asks (`ask`), the proposal is stored with its digest (`proposal`, `store`), a person
decides on the house's page or on a terminal, and `hearth approve --execute` does it
(`execute_proposal`).
"""


class ApprovalError(Exception):
    """One line for a person or a program: why there is no proposal, or nothing was done.

    One that quotes a program's own words comes from `outside`.
    """

    def __init__(self, text: str = "", *, outside: bool = False) -> None:
        super().__init__(text)
        self.outside = outside
