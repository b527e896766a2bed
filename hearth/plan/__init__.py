"""The planner: which models a machine runs, how fast, and whether all of it fits together.

It computes only. `hearth.machine.measured` measures the machine.
"""


class PlanError(Exception):
    """One line for a person: what cannot be planned, and what to do instead."""
