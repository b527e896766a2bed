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
        # What was written and not read yet.
        self._written: deque[str] = deque()
        self._tokens: deque[Token] = deque()
        self._fresh = asyncio.Event()
        self._cancel: Callable[[], None] | None = None
        self.unspoken = 0
        """Characters that were written and are in no piece yet."""
        self.is_closed = self.is_cancelled = False
        self.goes_on = False
        """Whether the same speech goes on with another text."""
        self._is_read = False

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

    def close(self, *, goes_on: bool = False) -> None:
        """Say that nothing more comes, or that the same speech goes on with a text of its own."""
        if not self.is_closed:
            self.is_closed, self.goes_on = True, goes_on
            self._fresh.set()

    def cancel(self) -> None:
        """Drop what is not yet spoken, and stop what is being made; speaking ends."""
        self.is_closed = self.is_cancelled = self._is_read = True
        self._written.clear()
        self._tokens.clear()
        self.unspoken = 0
        self._fresh.set()
        if self._cancel:
            self._cancel()

    def on_cancel(self, act: Callable[[], None] | None) -> None:
        """Say what stops the speech that is being made."""
        self._cancel = act

    # What follows is for the speaker alone.

    @property
    def ends_speech(self) -> bool:
        """Whether the speech ended with what was taken last."""
        return self.is_closed and not self.unspoken and not self.goes_on

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to speak and nothing comes."""
        return self._is_read and not self._tokens

    async def changed(self) -> None:
        """Wait until something was written, closed or cancelled since the last look."""
        self._fresh.clear()
        if not self._written and not self.is_closed:
            await self._fresh.wait()

    def ready(self, *, is_first: bool = False) -> list[Token]:
        """Return the tokens that may be spoken now, without taking them; a bounded part.

        Of an open text that is everything up to the last clause, or all of it where 64 words
        came without a clause. For a first piece less is read, which is sooner.
        """
        if is_first:
            self._read_ahead(_FIRST_CHARACTERS)
            if found := self._speakable():
                return found
        self._read_ahead(_WINDOW_CHARACTERS)
        return self._speakable()

    def _speakable(self) -> list[Token]:
        window = list(islice(self._tokens, _WINDOW_TOKENS))
        if self._is_read and len(window) == len(self._tokens):
            return window
        clause = next((i for i in range(len(window), 0, -1) if _ends(window[i - 1])), 0)
        words = sum(token.pause >= Pause.WORD for token in window[clause:])
        # A window without any clause is as long as a piece may be: there is no use in waiting.
        endless = not clause and self._has(_WINDOW_CHARACTERS)
        return _apart(window) if words >= _WORDS or endless else window[:clause]

    def take(self, count: int) -> list[Token]:
        """Take the first so many tokens: they are spoken now."""
        taken = [self._tokens.popleft() for _ in range(count)]
        self.unspoken -= sum(len(token.source) for token in taken)
        return taken

    def _read_ahead(self, characters: int) -> None:
        """Read as much as one piece may need, and never the whole of a long text at once."""
        while not self._has(characters):
            if self._written:
                part = self._written.popleft()
                if len(part) > _STEP:
                    self._written.appendleft(part[_STEP:])
                self._tokens.extend(self._reader.feed(part[:_STEP]))
            elif self.is_closed and not self._is_read:
                self._tokens.extend(self._reader.flush())
                self._is_read = True
            else:
                break

    def _has(self, characters: int) -> bool:
        if len(self._tokens) >= _WINDOW_TOKENS:
            return True
        size = within = 0
        for token in self._tokens:
            size += len(token.spoken)
            # What is glued to a token that was not read yet is not to be had.
            within = size if token.pause >= Pause.WORD else within
        return within >= characters


def _ends(token: Token) -> bool:
    return token.pause >= Pause.CLAUSE


def _apart(tokens: list[Token]) -> list[Token]:
    """Leave out what is glued to a token that comes later."""
    end = next((i for i in range(len(tokens), 0, -1) if tokens[i - 1].pause >= Pause.WORD), 0)
    return tokens[:end]
