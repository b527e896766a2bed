"""Which processes this process starts, seen by Python itself, whatever code starts them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

# In the fetcher's own instance, a page is read in a process of its own.
_OF_THE_FETCHER = "'hearth_fetcher.text'"
_STARTS = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork", "os.forkpty")
# A hook stays for ever, so there is one.
_seen: list[str] | None = None
_hooked = False


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if _seen is not None and event in _STARTS and _OF_THE_FETCHER not in repr(arguments):
        _seen.append(f"{event} {arguments!r}"[:2000])


@contextmanager
def started() -> Iterator[list[str]]:
    """Collect what is started in the block."""
    global _seen, _hooked
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked = True
    found: list[str] = []
    _seen = found
    try:
        yield found
    finally:
        _seen = None


@contextmanager
def unseen() -> Iterator[None]:
    """Let the test itself start something."""
    global _seen
    before, _seen = _seen, None
    try:
        yield
    finally:
        _seen = before
