"""Reads a text while it is being written."""

from hearth_kokoro.text.chunks import More, Window, cut
from hearth_kokoro.text.lexicon import lexicon
from hearth_kokoro.text.state import State
from hearth_kokoro.text.step import step
from hearth_kokoro.text.token import Token

_BATCH = 64
_FREE = 32
_LONG = 16
"""After so many parts of writing without a space, its further parts are so long at the least: a
megabyte of "a—" is not cut into a million pieces."""


class Reader:
    """Turns text that comes in deltas into tokens, as soon as no later text can change them.

    Why the deltas never matter: a chunk is cut only when the text behind it is known, and a rule
    looks ahead only through `Window.peek`, which gives up when what it asks for has not come
    yet. So whatever is decided was decided from the text alone.
    """

    def __init__(self, language: str) -> None:
        """Begin a text of this language (en-us, en-gb, es, fr-fr, hi, it, pt-br, ja, zh)."""
        self._lexicon = lexicon(language)
        self._window = Window()
        self._state = State()
        self._rest = ""
        self._parts = 0

    def feed(self, delta: str) -> list[Token]:
        """Take more text; return the tokens that are settled by it."""
        return self._read(delta, final=False)

    def flush(self) -> list[Token]:
        """Return all that is left; what comes later is a text of its own."""
        tokens = self._read("", final=True)
        self._state, self._parts = State(), 0
        return tokens

    def _read(self, delta: str, *, final: bool) -> list[Token]:
        text, at, tokens = self._rest + delta, 0, list[Token]()
        more = True
        while more:
            fresh = 0
            while fresh < _BATCH and (chunk := cut(text, at, final, self._least())):
                self._window.chunks.append(chunk)
                self._parts = 0 if chunk.space else self._parts + 1
                at += len(chunk.source)
                fresh += 1
            more = fresh == _BATCH
            self._window.final = final and not more
            if fresh or final:
                self._settle(tokens)
        self._rest, self._window.final = text[at:], False
        return tokens

    def _least(self) -> int:
        return 2 if self._parts < _FREE else _LONG

    def _settle(self, tokens: list[Token]) -> None:
        """Read the chunks that are known, as far as they say enough."""
        chunks = self._window.chunks
        try:
            while chunks:
                token, used = step(self._window, self._state, self._lexicon)
                tokens.append(token)
                for _ in range(used):
                    chunks.popleft()
        except More:
            return
