"""Verbalizes one word, or a few that form one token, with its punctuation and pause."""
# These characters look like others on purpose: people write them.
# ruff: noqa: RUF001

import re
from dataclasses import replace
from functools import lru_cache

from hearth_kokoro.text.abbreviations import first_parts, verbalize_abbreviation
from hearth_kokoro.text.amounts import verbalize_amount
from hearth_kokoro.text.chunks import Chunk, Window
from hearth_kokoro.text.cleaning import CleanWord, clean_word, mark_of
from hearth_kokoro.text.dates import day_of_month, month_initials, month_names
from hearth_kokoro.text.grouping import group_amount
from hearth_kokoro.text.lexicon.schema import Lexicon
from hearth_kokoro.text.special_words import (
    MINUS,
    is_dotted,
    plain_word,
    spell,
    verbalize_address,
    verbalize_roman,
)
from hearth_kokoro.text.tokens import Pause, SpokenForm, TokenizerState, pause_after

_DASHES = frozenset({"—", "–", "-", "--", "---", "―"})
_FIGURE = re.compile(r"[\d½⅓⅔¼¾⅛]")


def verbalize(
    window: Window, clean: CleanWord, state: TokenizerState, lexicon: Lexicon
) -> tuple[int, SpokenForm]:
    """Return the number of chunks of the next token, and its form; raises NeedsMoreText."""
    core = clean.core
    if (
        core.islower()
        and core.isalpha()
        and not clean.closes_aside
        and core not in _special(lexicon)
    ):
        if not clean.ends:
            return 1, _simple(core, lexicon)
        if clean.ends == ",":
            return 1, _simple_clause(core, lexicon)
    if not core:
        return 1, _marks_alone(window.chunks[0], clean, state)
    if core in _DASHES:
        return 1, _dash(window.chunks[0], clean, state, lexicon)
    if short := verbalize_abbreviation(window, clean, state, lexicon):
        return short
    if _FIGURE.search(core) or core in lexicon.money:
        used, clean = group_amount(window, clean, lexicon)
        text = _figures(window, used, clean.core, state, lexicon)
        pause = _after_figures(window, used, clean, lexicon)
        spoken = SpokenForm(text, pause=pause, word=clean.core.lower(), number=True)
    else:
        used, text = 1, _word(window, clean, state, lexicon)
        pause = _after_month(window, clean, lexicon)
        spoken = SpokenForm(text, pause=pause, word=core.lower())
    return used, _ended(window, used, clean, spoken)


@lru_cache(maxsize=16)
def _special(lexicon: Lexicon) -> frozenset[str]:
    """Return the words whose spoken form depends on their neighbours."""
    return month_names(lexicon) | first_parts(lexicon) | frozenset(lexicon.undotted)


@lru_cache(maxsize=4096)
def _simple(word: str, lexicon: Lexicon) -> SpokenForm:
    return SpokenForm(plain_word(word, lexicon), word=word)


@lru_cache(maxsize=1024)
def _simple_clause(word: str, lexicon: Lexicon) -> SpokenForm:
    return _simple(word, lexicon).with_punctuation(",")


def _ended(window: Window, used: int, clean: CleanWord, spoken: SpokenForm) -> SpokenForm:
    """Return the form with its punctuation mark and pause."""
    chunk = window.chunks[used - 1]
    if clean.closes_aside and not clean.ends and not chunk.line_breaks and chunk.after:
        return spoken.with_punctuation(",")
    mark = mark_of(clean.ends)
    if chunk.text.endswith("—"):
        return replace(spoken, mark=mark or "—", pause=Pause.CLAUSE)
    # A unit's dot: "15:30 h. el lunes".
    if (
        mark == "."
        and spoken.number
        and clean.core[-1].isalpha()
        and (_next(window, used)[:1].islower() or _next(window, used) in {"-", "–"})
    ):
        return spoken
    if not mark:
        return spoken
    pause = pause_after(mark)
    # In '"Really?" she asked' the quotation ends, but not the sentence.
    if pause == Pause.SENTENCE and clean.quoted and _next(window, used)[:1].islower():
        pause = Pause.CLAUSE
    if mark == "…" and _next(window, used)[:1].isupper():
        pause = Pause.SENTENCE
    return replace(spoken, mark=mark, pause=pause)


def _next(window: Window, used: int) -> str:
    """Return the next word, or at least its first letter; raises NeedsMoreText."""
    last = window.chunks[used - 1]
    if last.after.isalnum() or not last.after:
        return last.after
    following = window.peek(used)
    return clean_word(following.text).core if following else ""


def _marks_alone(chunk: Chunk, clean: CleanWord, state: TokenizerState) -> SpokenForm:
    mark = mark_of(clean.ends)
    if mark == "…" and chunk.text.strip(".…") == "" and not state.line_start:
        return SpokenForm("…", pause=Pause.CLAUSE)
    if chunk.text == "|":
        return SpokenForm("", pause=Pause.CLAUSE)
    opens = bool(chunk.text) and chunk.text[-1] in "([{«“„‹¿¡"
    if opens and chunk.space:
        return SpokenForm("", pause=Pause.NONE)
    return SpokenForm("", pause=pause_after(mark) if state.until else Pause.WORD)


def _dash(chunk: Chunk, clean: CleanWord, state: TokenizerState, lexicon: Lexicon) -> SpokenForm:
    if state.number and chunk.after.isdecimal() and clean.core != "—" and lexicon.to:
        # "10:30 a.m. - 11 p.m." is a range; "5 - 3" is not, unless the dash is longer.
        is_range = clean.core == "–" or ":" in state.word or state.word[-1:].isalpha()
        return SpokenForm(lexicon.to if is_range else lexicon.minus)
    if state.line_start or not chunk.after:
        return SpokenForm("")
    return SpokenForm("—", pause=Pause.CLAUSE)


def _word(window: Window, clean: CleanWord, state: TokenizerState, lexicon: Lexicon) -> str:
    core = clean.core
    # The time in "10:30 बजे" already contains the word for "o'clock".
    if core == "बजे" and ":" in state.word:
        return ""
    if lexicon.numbers and core[0] in "IVXLCM":
        chunk = window.chunks[0]
        after = ""
        if not clean.ends and chunk.after.isalpha() and len(core) > 1 and core.isupper():
            following = window.peek(1)
            after = clean_word(following.text).core.lower() if following else ""
        if spoken := verbalize_roman(core, state.word, after, lexicon):
            return spoken
    return _known_word(core, clean.is_code, lexicon)


@lru_cache(maxsize=4096)
def _known_word(core: str, is_code: bool, lexicon: Lexicon) -> str:
    """Return the spoken form of a word that does not depend on its neighbours."""
    if spoken := verbalize_address(core, lexicon) or lexicon.undotted.get(core.lower()):
        return spoken
    if core in lexicon.units and not core.isalpha():
        return lexicon.units[core][1].replace("{}", "")
    if is_dotted(core):
        return spell(core.replace(".", ""), lexicon)
    return plain_word(core, lexicon, is_code=is_code)


def _figures(window: Window, used: int, core: str, state: TokenizerState, lexicon: Lexicon) -> str:
    """Return figures in words; beside a month they are a day."""
    if core.isdecimal() and len(core) <= 2 and 1 <= int(core) <= 31 and lexicon.months:
        english = lexicon.language.startswith("en")
        if _month_follows(window, used, lexicon):
            day = day_of_month(core, lexicon)
            return f"{'' if state.word == 'the' else 'the '}{day} of" if english else day
        if english and state.word in month_names(lexicon):
            return day_of_month(core, lexicon)
    if (spoken := verbalize_address(core, lexicon)) and not re.fullmatch(r"[\d.,]+", core):
        return spoken
    if spoken := lexicon.undotted.get(core):
        return spoken
    spoken = verbalize_amount(core, lexicon)
    if spoken is None and core[:1] in "([" and len(core) > 1:
        spoken = verbalize_amount(core[1:], lexicon)
    parted = "-" in core.strip("-") and len(core) <= 24 and not MINUS.search(core)
    if spoken is None and parted:
        parts = core.split("-")
        return " ".join(filter(None, (_part(part, lexicon) for part in parts)))
    return plain_word(core, lexicon) if spoken is None else spoken


def _part(part: str, lexicon: Lexicon) -> str:
    return verbalize_amount(part, lexicon) or (plain_word(part, lexicon) if part else "")


def _month_follows(window: Window, used: int, lexicon: Lexicon) -> bool:
    last = window.chunks[used - 1]
    if last.line_breaks or last.after.lower() not in month_initials(lexicon):
        return False
    following = window.peek(used)
    return following is not None and clean_word(following.text).core.lower() in month_names(lexicon)


def _after_figures(window: Window, used: int, clean: CleanWord, lexicon: Lexicon) -> Pause:
    """Return the pause after figures: a day is not cut from its month."""
    if clean.ends or not clean.core.isdecimal() or len(clean.core) > 2 or not lexicon.months:
        return Pause.WORD
    return Pause.NONE if _month_follows(window, used, lexicon) else Pause.WORD


def _after_month(window: Window, clean: CleanWord, lexicon: Lexicon) -> Pause:
    """Return the pause after a word: a month is not cut from the figures after it."""
    chunk = window.chunks[0]
    if chunk.after.isdecimal() and not chunk.line_breaks and not clean.ends:
        return Pause.NONE if clean.core.lower() in month_names(lexicon) else Pause.WORD
    return Pause.WORD
