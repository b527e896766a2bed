"""Turns a text into tokens while it is being written."""

import re
from dataclasses import dataclass

from hearth_kokoro.text import markdown
from hearth_kokoro.text.chunks import Chunk, NeedsMoreText, Window, next_chunk
from hearth_kokoro.text.cleaning import clean_word, emoji_name
from hearth_kokoro.text.lexicon import lexicon_for
from hearth_kokoro.text.lexicon.schema import Lexicon
from hearth_kokoro.text.special_words import is_address
from hearth_kokoro.text.tokens import Pause, SpokenForm, Token, TokenizerState
from hearth_kokoro.text.words import verbalize

MAX_GLUED = 8
"""After so many glued tokens in a row a cut is allowed."""
MAX_HIDDEN = 12
"""The most words of a tag or a link target; without an end by then it is neither."""

_BATCH = 64
# After so many chunks without a space, chunks have at least this length: a megabyte of "a—" must
# not become a million tokens.
_MAX_SHORT_CHUNKS, _LONG_CHUNK = 32, 16
_OPEN_TAG = re.compile(r"<(?:[A-Za-z][^<>]*|!--[^<>]*)")
_CLOSING = re.compile(r"[,.;:!?…»”)\]]+|\|")
_CLOSERS = frozenset(",.;:!?…»”)]|")


def tokenize(text: str, language: str) -> list[Token]:
    """Return the tokens of a whole text, in linear time; their sources joined are the text."""
    tokenizer = Tokenizer(language)
    return [*tokenizer.feed(text), *tokenizer.flush()]


class Tokenizer:
    """Turns text that arrives in deltas into tokens, as soon as no later text can change them.

    The result does not depend on the deltas: a chunk ends only where the text after it is known,
    and a rule looks ahead only through `Window.peek`, which raises if that text is missing.
    """

    def __init__(self, language: str) -> None:
        """Start a text in a language: en-us, en-gb, es, fr-fr, hi, it, pt-br, ja or zh."""
        self._lexicon = lexicon_for(language)
        self._window = Window()
        self._state = TokenizerState()
        self._rest = ""
        self._chunks_without_space = 0

    def feed(self, delta: str) -> list[Token]:
        """Add text; return the tokens that are final now."""
        return self._tokenize(delta, final=False)

    def flush(self) -> list[Token]:
        """Return the remaining tokens; later text is a new text."""
        tokens = self._tokenize("", final=True)
        self._state, self._chunks_without_space = TokenizerState(), 0
        return tokens

    def _tokenize(self, delta: str, *, final: bool) -> list[Token]:
        text, at, tokens = self._rest + delta, 0, list[Token]()
        more = True
        while more:
            added = 0
            while added < _BATCH and (chunk := next_chunk(text, at, final, self._min_length())):
                self._window.chunks.append(chunk)
                self._chunks_without_space = 0 if chunk.space else self._chunks_without_space + 1
                at += len(chunk.source)
                added += 1
            more = added == _BATCH
            self._window.final = final and not more
            if added or final:
                self._take_tokens(tokens)
        self._rest, self._window.final = text[at:], False
        return tokens

    def _min_length(self) -> int:
        return 2 if self._chunks_without_space < _MAX_SHORT_CHUNKS else _LONG_CHUNK

    def _take_tokens(self, tokens: list[Token]) -> None:
        chunks = self._window.chunks
        try:
            while chunks:
                token, used = _next_token(self._window, self._state, self._lexicon)
                tokens.append(token)
                for _ in range(used):
                    chunks.popleft()
        except NeedsMoreText:
            return


@dataclass(frozen=True, slots=True)
class _ChunkGroup:
    """The chunks of one token, and its spoken form."""

    chunks: tuple[Chunk, ...]
    form: SpokenForm
    until: str = ""


def _next_token(window: Window, state: TokenizerState, lexicon: Lexicon) -> tuple[Token, int]:
    """Return the next token and its number of chunks; raises NeedsMoreText and changes nothing."""
    chunk = window.chunks[0]
    if marker := markdown.verbalize_marker(window, state, lexicon):
        group = _ChunkGroup((chunk,), marker)
    elif state.in_address:
        group = _ChunkGroup((chunk,), SpokenForm(""))
    else:
        group = _group(window, state, lexicon)
    return _finish(window, group, state), len(group.chunks)


def _group(window: Window, state: TokenizerState, lexicon: Lexicon) -> _ChunkGroup:
    chunk = window.chunks[0]
    text = chunk.text.partition(state.until)[2] if state.until else chunk.text
    if hidden := _hidden(window, text):
        return hidden
    word = clean_word(text)
    if word.is_emoji:
        return _emoji(window, state, lexicon)
    used, form = verbalize(window, word, state, lexicon)
    chunks = [window.chunks[index] for index in range(used)]
    # The French space before a mark, a table's bar, dots between spaces.
    while chunks[-1].space and not chunks[-1].line_breaks and chunks[-1].after in _CLOSERS:
        closing = window.peek(len(chunks))
        if closing is None or len(chunks) > 8 or not _CLOSING.fullmatch(closing.text):
            break
        bar = "," if closing.text == "|" and not closing.line_breaks else ""
        form = form.with_punctuation(clean_word(closing.text).ends or bar)
        chunks.append(closing)
    return _ChunkGroup(tuple(chunks), form)


def _hidden(window: Window, text: str) -> _ChunkGroup | None:
    """Return the chunks of a tag or of a link's target up to the chunk that ends it."""
    if text.startswith("<") and _OPEN_TAG.fullmatch(text):
        until, form = ">", SpokenForm("", pause=Pause.NONE)
    elif "](" in text and _in_target(text):
        # The last word of the label precedes the target.
        until, form = ")", SpokenForm(clean_word(text.rpartition("](")[0]).core)
    else:
        return None
    chunks = [window.chunks[0]]
    while len(chunks) < MAX_HIDDEN and not chunks[-1].continues and chunks[-1].line_breaks < 2:
        following = window.peek(len(chunks))
        if following is None:
            return None
        if until in following.text:
            return _ChunkGroup(tuple(chunks), form, until)
        chunks.append(following)
    return None


def _emoji(window: Window, state: TokenizerState, lexicon: Lexicon) -> _ChunkGroup:
    """Name an emoji where its line has nothing else; elsewhere it is silent."""
    chunks = [window.chunks[0]]
    while state.line_start and chunks[-1].space and not chunks[-1].line_breaks and len(chunks) < 8:
        following = window.peek(len(chunks))
        if following is None:
            break
        if not clean_word(following.text).is_emoji:
            return _ChunkGroup((window.chunks[0],), SpokenForm(""))
        chunks.append(following)
    if not state.line_start:
        return _ChunkGroup((chunks[0],), SpokenForm(""))
    names = emoji_name("".join(chunk.text for chunk in chunks), lexicon.emoji)
    return _ChunkGroup(tuple(chunks), SpokenForm(names, "." if names else "", Pause.SENTENCE))


def _finish(window: Window, group: _ChunkGroup, state: TokenizerState) -> Token:
    """Return the token with its pause and mark, and update the state."""
    first, last, form = group.chunks[0], group.chunks[-1], group.form
    pause, mark = form.pause, form.mark
    if last.continues and pause < Pause.WORD:
        pause = Pause.WORD
    at_end = markdown.pause_at_end(window, len(group.chunks), last, state)
    if at_end > pause:
        if form.text and at_end >= Pause.CLAUSE and (not mark or at_end >= Pause.SENTENCE):
            mark = markdown.mark_at_end(mark, at_end)
        pause = at_end
    # Nothing looks ahead from here on, so the state may change.
    state.glued = state.glued + 1 if pause == Pause.NONE else 0
    if state.glued > MAX_GLUED:
        pause, state.glued = Pause.WORD, 0
    markdown.update_line(state, first, last, form.line)
    continued = state.in_address or is_address(last.text) or _in_target(last.text)
    state.in_address = last.continues and continued
    state.until = group.until
    state.number = form.number
    if form.word or form.text:
        state.word = form.word
    source = last.source if first is last else "".join(chunk.source for chunk in group.chunks)
    text = form.text.strip()
    if "  " in text:
        text = " ".join(text.split())
    return Token(source, text + mark if text else "", pause)


def _in_target(text: str) -> bool:
    """Return whether a link's target has started here and not ended."""
    return text.rfind("](") > text.rfind(")")
