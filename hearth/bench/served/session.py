"""How a run begins, whatever is measured in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from hearth.bench.served.watched import Watched
from hearth.clients import ClientError

Bare = TypeVar("Bare")


class Session(Protocol[Bare]):
    """One run: the first target is the server in question."""

    bare: Bare | None
    no_bare: str

    @property
    def targets(self) -> Sequence[Watched]:
        """The servers."""
        ...


async def begin(
    session: Session[Bare], bare: Callable[[Mapping[str, Any]], Bare] | None, no_bare: str
) -> None:
    """Ask every server what it is, and make what is measured beside the first without a server.

    Raises:
        ClientError: the first server does not answer at all.
    """
    ours, *others = session.targets
    await ours.begin()
    for other in others:
        try:
            await other.begin()
        except ClientError as error:
            other.stopped = str(error)
    session.no_bare = "" if bare else no_bare
    if bare is not None:
        try:
            session.bare = bare(ours.status)
        except ClientError as error:
            session.no_bare = str(error)
