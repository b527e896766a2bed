"""The text of one speech, whole or still arriving, and the part that is not spoken yet."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

from hearth_kokoro.text.tokenizer import Tokenizer
from hearth_kokoro.text.tokens import Pause, Token, split_long

# Text without punctuation is spoken after so many words.
_MAX_WORDS = 64
# Characters that are tokenized at once: a long text delays neither the event loop nor a sound.
_STEP = 150
# A segment is chosen among so many tokens; so many spoken characters are enough for that.
_WINDOW_TOKENS, _FIRST_CHARACTERS, _WINDOW_CHARACTERS = 400, 100, 600


class TextBuffer:
    """Passes text from one writer to one speech; both run on the same event loop."""

    def __init__(self, language: str) -> None:
        self._tokenizer = Tokenizer(language)
        # Text that is not tokenized yet.
        self._written: deque[str] = deque()
        self._tokens: deque[Token] = deque()
        self._changed = asyncio.Event()
        self._cancel: Callable[[], None] | None = None
        self.unspoken = 0
        """Characters that were written and are not in a segment yet."""
        self.is_closed = self.is_cancelled = False
        self.continues = False
        """Whether another text continues the same speech."""
        self._is_tokenized = False

    @classmethod
    def of(cls, text: str, language: str) -> "TextBuffer":
        """Return a buffer with a whole text, closed."""
        buffer = cls(language)
        buffer.write(text)
        buffer.close()
        return buffer

    def write(self, text: str) -> None:
        """Add text; after close or cancel it is ignored."""
        if text and not self.is_closed:
            self._written.append(text)
            self.unspoken += len(text)
            self._changed.set()

    def close(self, *, continues: bool = False) -> None:
        """End the text; `continues` if another text continues the same speech."""
        if not self.is_closed:
            self.is_closed, self.continues = True, continues
            self._changed.set()

    def cancel(self) -> None:
        """Drop the unspoken text and stop the synthesis; the speech ends."""
        self.is_closed = self.is_cancelled = self._is_tokenized = True
        self._written.clear()
        self._tokens.clear()
        self.unspoken = 0
        self._changed.set()
        if self._cancel:
            self._cancel()

    def on_cancel(self, act: Callable[[], None] | None) -> None:
        """Set the function that stops the synthesis."""
        self._cancel = act

    # Only the speech calls the methods below.

    @property
    def ends_speech(self) -> bool:
        """Whether the speech ends with the tokens that were taken last."""
        return self.is_closed and not self.unspoken and not self.continues

    @property
    def is_finished(self) -> bool:
        """Whether all text is spoken and no more can come."""
        return self._is_tokenized and not self._tokens

    async def changed(self) -> None:
        """Wait until the buffer is written to, closed or cancelled."""
        self._changed.clear()
        if not self._written and not self.is_closed:
            await self._changed.wait()

    def ready(self, *, is_first: bool = False) -> list[Token]:
        """Return the tokens that can be spoken now, without taking them; a bounded number.

        An open text is spoken up to its last clause, or wholly after 64 words without a clause.
        For a first segment less text is tokenized, which is faster.
        """
        if is_first:
            self._read_ahead(_FIRST_CHARACTERS)
            if found := self._speakable():
                return found
        self._read_ahead(_WINDOW_CHARACTERS)
        return self._speakable()

    def _speakable(self) -> list[Token]:
        window = list(islice(self._tokens, _WINDOW_TOKENS))
        if self._is_tokenized and len(window) == len(self._tokens):
            return window
        clause = next((i for i in range(len(window), 0, -1) if _ends(window[i - 1])), 0)
        words = sum(token.pause >= Pause.WORD for token in window[clause:])
        # A window without a clause is as long as a segment may be: waiting does not help.
        endless = not clause and self._has(_WINDOW_CHARACTERS)
        return _whole_words(window) if words >= _MAX_WORDS or endless else window[:clause]

    def take(self, count: int) -> list[Token]:
        """Remove and return the first tokens: they are spoken now."""
        taken = [self._tokens.popleft() for _ in range(count)]
        self.unspoken -= sum(len(token.source) for token in taken)
        return taken

    def _read_ahead(self, characters: int) -> None:
        """Tokenize as much as one segment may need, never a whole long text at once."""
        while not self._has(characters):
            if self._written:
                part = self._written.popleft()
                if len(part) > _STEP:
                    self._written.appendleft(part[_STEP:])
                self._add(self._tokenizer.feed(part[:_STEP]))
            elif self.is_closed and not self._is_tokenized:
                self._add(self._tokenizer.flush())
                self._is_tokenized = True
            else:
                break

    def _add(self, tokens: Iterable[Token]) -> None:
        self._tokens.extend(part for token in tokens for part in split_long(token))

    def _has(self, characters: int) -> bool:
        if len(self._tokens) >= _WINDOW_TOKENS:
            return True
        size = within = 0
        for token in self._tokens:
            size += len(token.spoken)
            # A token that is glued to one that was not tokenized yet cannot be spoken.
            within = size if token.pause >= Pause.WORD else within
        return within >= characters


def _ends(token: Token) -> bool:
    return token.pause >= Pause.CLAUSE


def _whole_words(tokens: list[Token]) -> list[Token]:
    """Leave out the last tokens if they are glued to one that comes later."""
    end = next((i for i in range(len(tokens), 0, -1) if tokens[i - 1].pause >= Pause.WORD), 0)
    return tokens[:end]
