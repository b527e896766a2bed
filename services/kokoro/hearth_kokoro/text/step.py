"""First."""
from dataclasses import dataclass

from hearth_kokoro.text.chunks import Window
from hearth_kokoro.text.token import Pause, Token


@dataclass(frozen=True, slots=True)
class State:
    """Nothing yet."""

_P = {".": 3, "!": 3, "?": 3, "。": 3, "！": 3, "？": 3, "।": 3, ",": 2, ";": 2, ":": 2, "、": 2, "，": 2, "—": 2, "…": 2}

def step(window: Window, state: State, lexicon: str) -> tuple[Token, int, State]:
    """Read one chunk plainly."""
    chunk = window.peek(0)
    assert chunk
    pause = _P.get(chunk.text.rstrip("\"'”»)")[-1:], 1)
    return Token(chunk.source, chunk.text, Pause(4 if chunk.breaks > 1 else pause)), 1, state
