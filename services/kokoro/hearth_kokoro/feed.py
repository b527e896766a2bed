"""The text of one request, whole or as it is being written, and what of it is not yet spoken."""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice

from hearth_kokoro.text.reader import Reader
from hearth_kokoro.text.token import Pause, Token

# A language model that writes no punctuation is spoken after so many words all the same.
_WORDS = 64
# So much is read at once: neither the event loop nor a first sound waits for a long text.
_STEP = 150
# The most tokens that a piece is looked for in, and the spoken characters that are enough for
# a first piece and for any.
_WINDOW_TOKENS, _FIRST_CHARACTERS, _WINDOW_CHARACTERS = 400, 100, 600


class Feed:
    """Takes text from a writer and gives it to one speaker; both on the same event loop."""

    def __init__(self, language: str) -> None:
        """Begin an empty, open text."""
        self._reader = Reader(language)
        # What was written and not read yet; None is a flush.
        self._written: deque[str | None] = deque()
        self._tokens: deque[Token] = deque()
        # After how many tokens of all a flush stands; none of the pieces crosses it.
        self._flushes: deque[int] = deque()
        self._taken = self._read = 0
        self._fresh = asyncio.Event()
        self._room = asyncio.Event()
        self._cancel: Callable[[], None] | None = None
        self.unspoken = 0
        """Characters that were written and are in no piece yet."""
        self.is_closed = False
        self.is_cancelled = False

    @classmethod
    def of(cls, text: str, language: str) -> "Feed":
        """Return a whole text, written and closed."""
        feed = cls(language)
        feed.write(text)
        feed.close()
        return feed

    def write(self, text: str) -> None:
        """Add text; what comes after close or cancel is dropped."""
        if text and not self.is_closed:
            self._written.append(text)
            self.unspoken += len(text)
            self._fresh.set()

    def flush(self) -> None:
        """Have everything written so far spoken without waiting for more."""
        if not self.is_closed:
            self._written.append(None)
            self._fresh.set()

    def close(self) -> None:
        """Say that nothing more comes."""
        self.flush()
        self.is_closed = True

    def cancel(self) -> None:
        """Drop what is not yet spoken, and stop what is being made; speaking ends."""
        self.is_closed = self.is_cancelled = True
        self._written.clear()
        self._tokens.clear()
        self._flushes.clear()
        self.unspoken = 0
        self._fresh.set()
        self._room.set()
        if self._cancel:
            self._cancel()

    def on_cancel(self, act: Callable[[], None] | None) -> None:
        """Say what stops the speech that is being made."""
        self._cancel = act

    async def drained(self, below: int) -> None:
        """Wait until fewer characters than `below` are unspoken: a writer's backpressure."""
        while self.unspoken >= below and not self.is_cancelled:
            self._room.clear()
            await self._room.wait()

    # What follows is for the speaker alone.

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to speak and nothing comes."""
        return self.is_closed and not self._written and not self._tokens

    async def changed(self) -> None:
        """Wait until something was written, flushed, closed or cancelled since the last look."""
        self._fresh.clear()
        if not self._written and not self.is_closed:
            await self._fresh.wait()

    def ready(self, *, is_first: bool = False) -> list[Token]:
        """Return the tokens that may be spoken now, without taking them; a bounded part.

        Of an open text that is everything up to the last clause, or to a flush, or all of it
        where 64 words came without a clause. For a first piece less is read, which is sooner.
        """
        if is_first:
            self._read_ahead(_FIRST_CHARACTERS)
            if found := self._speakable():
                return found
        self._read_ahead(_WINDOW_CHARACTERS)
        return self._speakable()

    def _speakable(self) -> list[Token]:
        window = list(islice(self._tokens, _WINDOW_TOKENS))
        if self._flushes and self._flushes[0] - self._taken <= len(window):
            return window[: self._flushes[0] - self._taken]
        clause = next((i for i in range(len(window), 0, -1) if _ends(window[i - 1])), 0)
        words = sum(token.pause >= Pause.WORD for token in window[clause:])
        # A window without any clause is as long as a piece may be: there is no use in waiting.
        endless = not clause and self._has(_WINDOW_CHARACTERS)
        return _apart(window) if words >= _WORDS or endless else window[:clause]

    def take(self, count: int) -> list[Token]:
        """Take the first so many tokens: they are spoken now."""
        taken = [self._tokens.popleft() for _ in range(count)]
        self._taken += count
        while self._flushes and self._flushes[0] <= self._taken:
            self._flushes.popleft()
        self.unspoken -= sum(len(token.source) for token in taken)
        self._room.set()
        return taken

    def _read_ahead(self, characters: int) -> None:
        """Read as much as one piece may need, and never the whole of a long text at once."""
        while self._written and not self._has(characters):
            part = self._written.popleft()
            if part is None:
                self._keep(self._reader.flush())
                if self._read > (self._flushes[-1] if self._flushes else self._taken):
                    self._flushes.append(self._read)
                continue
            if len(part) > _STEP:
                self._written.appendleft(part[_STEP:])
            self._keep(self._reader.feed(part[:_STEP]))

    def _has(self, characters: int) -> bool:
        if len(self._tokens) >= _WINDOW_TOKENS:
            return True
        size = within = 0
        for token in self._tokens:
            size += len(token.spoken)
            # What is glued to a token that was not read yet is not to be had.
            within = size if token.pause >= Pause.WORD else within
        return within >= characters

    def _keep(self, tokens: list[Token]) -> None:
        self._tokens.extend(tokens)
        self._read += len(tokens)


def _ends(token: Token) -> bool:
    return token.pause >= Pause.CLAUSE


def _apart(tokens: list[Token]) -> list[Token]:
    """Leave out what is glued to a token that comes later."""
    end = next((i for i in range(len(tokens), 0, -1) if tokens[i - 1].pause >= Pause.WORD), 0)
    return tokens[:end]
