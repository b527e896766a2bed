"""Proposals to change the house: what a person approves is what is carried out, once.

A program asks (`ask`), the proposal is stored with its digest (`proposal`, `store`), a person
decides on the house's page or on a terminal, and `hearth approve --execute` does it (`carry_out`).
"""


class ApprovalError(Exception):
    """One line for a person or a program: why there is no proposal, or nothing was done."""
