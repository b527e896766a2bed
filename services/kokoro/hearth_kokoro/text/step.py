"""Reads the next token of a text from the chunks that are known."""
# The signs that look like others are meant: they are what people write.

import re
from dataclasses import dataclass

from hearth_kokoro.text import lines
from hearth_kokoro.text.chunks import Chunk, Window
from hearth_kokoro.text.clean import clean, emoji_name
from hearth_kokoro.text.lexicon.shape import Lexicon
from hearth_kokoro.text.names import is_address
from hearth_kokoro.text.said import Said
from hearth_kokoro.text.state import State
from hearth_kokoro.text.token import Pause, Token
from hearth_kokoro.text.words import say

MOST_GLUED = 8
"""So many tokens may be glued to their next; then a cut is allowed, whatever is written."""

MOST_HIDDEN = 12
"""The most words of a tag or a target; what does not end by then is neither."""

_OPEN_TAG = re.compile(r"<(?:[A-Za-z][^<>]*|!--[^<>]*)")
_CLOSING = re.compile(r"[,.;:!?…»”)\]]+|\|")
_CLOSERS = frozenset(",.;:!?…»”)]|")


@dataclass(frozen=True, slots=True)
class _Turn:
    """The chunks that make one token, and what was read in them."""

    chunks: tuple[Chunk, ...]
    said: Said
    until: str = ""


def step(window: Window, state: State, lexicon: Lexicon) -> tuple[Token, int]:
    """Return the next token and how many chunks it took; raises More and then changes nothing."""
    chunk = window.chunks[0]
    if silent := lines.silent(window, state, lexicon):
        turn = _Turn((chunk,), silent)
    elif state.tail:
        turn = _Turn((chunk,), Said(""))
    else:
        turn = _read(window, state, lexicon)
    return _end(window, turn, state), len(turn.chunks)


def _read(window: Window, state: State, lexicon: Lexicon) -> _Turn:
    chunk = window.chunks[0]
    text = chunk.text.partition(state.until)[2] if state.until else chunk.text
    if hidden := _hidden(window, text):
        return hidden
    bare = clean(text)
    if bare.is_emoji:
        return _emoji(window, state, lexicon)
    used, said = say(window, bare, state, lexicon)
    chunks = [window.chunks[index] for index in range(used)]
    # The French space before a mark, a table's bar, the dots that stand alone.
    while chunks[-1].space and not chunks[-1].breaks and chunks[-1].after in _CLOSERS:
        closing = window.peek(len(chunks))
        if closing is None or len(chunks) > 8 or not _CLOSING.fullmatch(closing.text):
            break
        bar = "," if closing.text == "|" and not closing.breaks else ""
        said = said.with_ends(clean(closing.text).ends or bar)
        chunks.append(closing)
    return _Turn(tuple(chunks), said)


def _hidden(window: Window, text: str) -> _Turn | None:
    """Return the words of a tag or of a link's target up to the one that ends it."""
    if text.startswith("<") and _OPEN_TAG.fullmatch(text):
        until, said = ">", Said("", pause=Pause.NONE)
    elif "](" in text and _in_target(text):
        # The last word of the label stands before the target; it ends here.
        until, said = ")", Said(clean(text.rpartition("](")[0]).core)
    else:
        return None
    chunks = [window.chunks[0]]
    while len(chunks) < MOST_HIDDEN and not chunks[-1].goes_on and chunks[-1].breaks < 2:
        further = window.peek(len(chunks))
        if further is None:
            return None
        if until in further.text:
            return _Turn(tuple(chunks), said, until)
        chunks.append(further)
    return None


def _emoji(window: Window, state: State, lexicon: Lexicon) -> _Turn:
    """An emoji is said where its line has nothing else; anywhere else it only decorates."""
    chunks = [window.chunks[0]]
    while state.line_start and chunks[-1].space and not chunks[-1].breaks and len(chunks) < 8:
        further = window.peek(len(chunks))
        if further is None:
            break
        if not clean(further.text).is_emoji:
            return _Turn((window.chunks[0],), Said(""))
        chunks.append(further)
    if not state.line_start:
        return _Turn((chunks[0],), Said(""))
    names = emoji_name("".join(chunk.text for chunk in chunks), lexicon.emoji)
    return _Turn(tuple(chunks), Said(names, "." if names else "", Pause.SENTENCE))


def _end(window: Window, turn: _Turn, state: State) -> Token:
    """Put a token's pause and marks: by its own, by its line's end, by the text's end."""
    first, last, said = turn.chunks[0], turn.chunks[-1], turn.said
    pause, mark = said.pause, said.mark
    if last.goes_on and pause < Pause.WORD:
        pause = Pause.WORD
    broken = lines.pause_at_end(window, len(turn.chunks), last, state)
    if broken > pause:
        if said.text and broken >= Pause.CLAUSE and (not mark or broken >= Pause.SENTENCE):
            mark = lines.mark_at_end(mark, broken)
        pause = broken
    # From here nothing looks ahead any more, so the state may change.
    state.glued = state.glued + 1 if pause == Pause.NONE else 0
    if state.glued > MOST_GLUED:
        pause, state.glued = Pause.WORD, 0
    lines.follow(state, first, last, said.line)
    state.tail = last.goes_on and (state.tail or is_address(last.text) or _in_target(last.text))
    state.until = turn.until
    state.number = said.number
    if said.word or said.text:
        state.word = said.word
    source = last.source if first is last else "".join(chunk.source for chunk in turn.chunks)
    text = said.text.strip()
    if "  " in text:
        text = " ".join(text.split())
    return Token(source, text + mark if text else "", pause)


def _in_target(text: str) -> bool:
    """Whether a link's target has begun here and not ended."""
    return text.rfind("](") > text.rfind(")")
