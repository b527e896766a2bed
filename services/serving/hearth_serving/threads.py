"""How many threads a model gets, by what was measured with each number."""

from collections.abc import Sequence

from hearth_serving.remembered import Measured

_WORTH_MORE = 0.9
# While something else runs here, as when a whole house starts, fewer threads look faster than they
# are: what is remembered must hold when it is gone.
_WORTH_FEWER = 0.75


def by_threads(measured: Sequence[Measured], cores: int) -> Measured:
    """Return the best number of threads; a busy neighbour must not leave cores idle for ever.

    More threads than cores must be 10 % faster than one per core, fewer 25 %.
    """

    def weighed(one: Measured) -> float:
        if one.threads == cores:
            return one.rtf
        return one.rtf / (_WORTH_MORE if one.threads > cores else _WORTH_FEWER)

    return min(measured, key=weighed)
