"""Publish which instances are ready to the other steps of a run, as soon as each of them is.

Ansible shows a host what another one did only when that one's step has ended.
"""

import contextlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

# Ansible's own, which ends with the run: no other run's state can be in it.
from ansible.constants import DEFAULT_LOCAL_TMP

from hearth.progress import WAITING, doing

# Of the images that are built first, each has a limit of its own.
LIMIT_S = 3600.0
_LOOK_S = 0.1
_READY, _NOT_READY = "ready", "not ready"


class ReadinessError(RuntimeError):
    """No step published the state of an instance."""


def publish(instance: str, *, ready: bool) -> None:
    """Publish whether an instance can be used in this run; the first state counts."""
    # Unlike a file, a link comes into being with its content.
    with contextlib.suppress(FileExistsError):
        _place(instance).symlink_to(_READY if ready else _NOT_READY)


@contextlib.contextmanager
def all_published(instances: Iterable[str]) -> Iterator[None]:
    """Publish the others as not ready at the end, also after an error."""
    try:
        yield
    finally:
        for instance in instances:
            publish(instance, ready=False)


def wait(instance: str, within_s: float = LIMIT_S) -> bool:
    """Wait for the state of an instance; return whether it can be used.

    Raises:
        ReadinessError: no state was published within `within_s` seconds.
    """
    place, end = _place(instance), time.monotonic() + within_s
    with doing(WAITING, f"instance {instance}"):
        while not place.is_symlink():
            if time.monotonic() > end:
                raise ReadinessError(f"instance {instance} was not ready in {within_s:g} s")
            time.sleep(_LOOK_S)
    return str(place.readlink()) == _READY


def _place(instance: str) -> Path:
    return Path(DEFAULT_LOCAL_TMP, f"instance-{instance}")
