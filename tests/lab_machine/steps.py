"""Steps with their times, reported to listeners: the CLI prints them, a library stays silent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hearth.progress import EVERY_S, repeating

Listener = Callable[[str, float | None], None]

_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Call `listener(text, seconds)` for every later step; seconds is None for a remark."""
    _listeners.append(listener)


def remark(text: str) -> None:
    """Report a change or a note that has no duration."""
    for listener in _listeners:
        listener(text, None)


@contextmanager
def step(text: str) -> Iterator[None]:
    """Time one step and report it to the listeners when it succeeds."""
    started = time.monotonic()

    def still() -> None:
        remark(f"… {text}: {time.monotonic() - started:.0f} s so far")

    with repeating(still, EVERY_S):
        yield
    for listener in _listeners:
        listener(text, time.monotonic() - started)
