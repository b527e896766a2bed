"""The lines of Markdown: headings, lists, quotes, tables, rules and code blocks."""
# These characters look like others on purpose: people write them.
# ruff: noqa: RUF001

import re

from hearth_kokoro.text.chunks import Chunk, Window
from hearth_kokoro.text.lexicon.schema import Lexicon
from hearth_kokoro.text.numbers import cardinal
from hearth_kokoro.text.tokens import LineKind, Pause, SpokenForm, TokenizerState

SHORT_LINE = 50
"""A shorter line was ended on purpose; a longer one may only be wrapped."""

_HEADING = re.compile(r"#{1,6}")
_BULLET = re.compile(r"[-*+•◦▪‣–]")
_COUNTED = re.compile(r"(\d{1,3})[.)]")
_QUOTE = re.compile(r">+")
_RULE = re.compile(r"[-*_=]{3,}|(?:[-*_]){3,}")
_FENCE = re.compile(r"(`{3,}|~{3,})([^`]*)")
_TABLE_RULE = re.compile(r"\|?[:|-]*--[:|-]*")


def verbalize_marker(window: Window, state: TokenizerState, lexicon: Lexicon) -> SpokenForm | None:
    """Return the spoken form of a line's marker, None for a word; raises NeedsMoreText."""
    chunk = window.chunks[0]
    if not chunk.text:
        return SpokenForm("", pause=Pause.WORD)
    if state.fence:
        return SpokenForm("")
    if state.line is LineKind.HEADING and _HEADING.fullmatch(chunk.text):
        return SpokenForm("")
    if not state.line_start:
        return None
    fence = _FENCE.fullmatch(chunk.text)
    if fence:
        return SpokenForm(lexicon.code.rstrip(".。"), ".", Pause.SENTENCE)
    if _RULE.fullmatch(chunk.text) or (_TABLE_RULE.fullmatch(chunk.text) and "|" in chunk.text):
        return SpokenForm("", pause=Pause.SENTENCE)
    if chunk.line_breaks or not chunk.space:
        return None
    return _marker(window, chunk, lexicon)


def _marker(window: Window, chunk: Chunk, lexicon: Lexicon) -> SpokenForm | None:
    if _HEADING.fullmatch(chunk.text):
        return SpokenForm("", pause=Pause.NONE, line=LineKind.HEADING)
    if _QUOTE.fullmatch(chunk.text):
        return SpokenForm("", pause=Pause.NONE)
    if chunk.text == "|":
        return SpokenForm("", pause=Pause.NONE, line=LineKind.TABLE)
    if _BULLET.fullmatch(chunk.text):
        # A rule of three marks with spaces between them is silent as well.
        return SpokenForm("", pause=Pause.NONE, line=LineKind.ITEM)
    if counted := _COUNTED.fullmatch(chunk.text):
        if window.peek(1) is None:
            return None
        return SpokenForm(cardinal(counted[1], lexicon), ",", Pause.NONE, line=LineKind.ITEM)
    return None


def update_line(state: TokenizerState, first: Chunk, last: Chunk, line: LineKind | None) -> None:
    """Update the state by these chunks of one line."""
    state.fence, state.fence_line = _fence(state, first, last)
    if last.line_breaks:
        state.line_start, state.line, state.length, state.fence_line = True, LineKind.TEXT, 0, False
        return
    # After a marker the line may start with another one: "> - [ ] # text".
    leads = line is not None or not first.text or _QUOTE.fullmatch(first.text) is not None
    state.line_start = state.line_start and leads
    state.line = line or state.line
    state.length += len(first.text) + len(first.space) if first is last else 20


def _fence(state: TokenizerState, first: Chunk, last: Chunk) -> tuple[str, bool]:
    if not state.fence and not (state.line_start and first.text[:3] in {"```", "~~~"}):
        return "", False
    if state.fence:
        marks = first.text.rstrip()
        closes = set(marks) == {state.fence[0]} and len(marks) >= len(state.fence)
        on_its_line = state.fence_line and marks.endswith(state.fence)
        if (closes and state.line_start) or on_its_line:
            return "", False
        return state.fence, state.fence_line and not last.line_breaks
    found = _FENCE.fullmatch(first.text)
    return (found[1], not last.line_breaks) if found else ("", False)


def pause_at_end(window: Window, used: int, last: Chunk, state: TokenizerState) -> Pause:
    """Return the pause at the end of a line or of the text; raises NeedsMoreText."""
    if not last.line_breaks:
        if last.after or last.continues or not window.final or used < len(window.chunks):
            return Pause.NONE
        return Pause.WORD if state.line is LineKind.TEXT else Pause.SENTENCE
    if state.fence and not state.line_start:
        return Pause.WORD
    if last.line_breaks > 1 or state.line is LineKind.HEADING:
        return Pause.PARAGRAPH
    if state.line is not LineKind.TEXT:
        return Pause.SENTENCE
    if last.after in "#>-*+•|`~=" or last.after.isdecimal():
        following = window.peek(used)
        if following is not None and _starts_block(following):
            return Pause.SENTENCE
    return Pause.CLAUSE if state.length + len(last.text) < SHORT_LINE else Pause.WORD


def _starts_block(chunk: Chunk) -> bool:
    """Return whether a new block starts with this chunk."""
    if _FENCE.fullmatch(chunk.text) or _RULE.fullmatch(chunk.text) or chunk.text[:1] == "|":
        return True
    marks = (_HEADING, _BULLET, _COUNTED, _QUOTE)
    return bool(chunk.space) and any(mark.fullmatch(chunk.text) for mark in marks)


def mark_at_end(mark: str, pause: Pause) -> str:
    """Return the mark for the intonation at a line's end, if the line has none."""
    if pause >= Pause.SENTENCE:
        return mark if mark[-1:] in {".", "!", "?", "…", ":"} else "."
    return mark or ","
