"""Steps with their times, told to whoever listens: the CLI prints them, a library is silent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str, float | None], None]

_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Tell `listener(text, seconds)` of every step from now on; seconds is None for a remark."""
    _listeners.append(listener)


def remark(text: str) -> None:
    """Say something that took no time but that a person should know."""
    for listener in _listeners:
        listener(text, None)


@contextmanager
def step(text: str) -> Iterator[None]:
    """Time one step and tell the listeners when it has ended well."""
    began = time.monotonic()
    yield
    for listener in _listeners:
        listener(text, time.monotonic() - began)
