"""Tell the other steps of a run which instances are there, as soon as each of them is.

Ansible shows a host what another one did only when that one's step has ended.
"""

import contextlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

# Ansible's own, which ends with the run: no other run's word can be in it.
from ansible.constants import DEFAULT_LOCAL_TMP

from hearth.progress import WAITING, doing

# Of the images that are built first, each has a limit of its own.
LIMIT_S = 3600.0
_LOOK_S = 0.1
_THERE, _NOT_THERE = "there", "not there"


class HandoverError(RuntimeError):
    """No step told about an instance."""


def tell(instance: str, *, there: bool) -> None:
    """Tell whether an instance can be used in this run; the first word counts."""
    # Unlike a file, a link comes into being with its content.
    with contextlib.suppress(FileExistsError):
        _place(instance).symlink_to(_THERE if there else _NOT_THERE)


@contextlib.contextmanager
def all_told(instances: Iterable[str]) -> Iterator[None]:
    """Tell at the end, also after an error, that those that nobody spoke of are not there."""
    try:
        yield
    finally:
        for instance in instances:
            tell(instance, there=False)


def wait(instance: str, within_s: float = LIMIT_S) -> bool:
    """Wait for the word on an instance; return whether it can be used.

    Raises:
        HandoverError: nobody told within `within_s` seconds.
    """
    place, end = _place(instance), time.monotonic() + within_s
    with doing(WAITING, f"instance {instance}"):
        while not place.is_symlink():
            if time.monotonic() > end:
                raise HandoverError(f"instance {instance} was not ready in {within_s:g} s")
            time.sleep(_LOOK_S)
    return str(place.readlink()) == _THERE


def _place(instance: str) -> Path:
    return Path(DEFAULT_LOCAL_TMP, f"instance-{instance}")
