"""Says one word, or a few that belong together, and finds where its sentence ends."""
# The signs that look like others are meant: they are what people write.
# ruff: noqa: RUF001

import re
from dataclasses import replace
from functools import lru_cache

from hearth_kokoro.text import names
from hearth_kokoro.text.abbreviations import abbreviation, first_parts
from hearth_kokoro.text.amounts import amount
from hearth_kokoro.text.chunks import Chunk, Window
from hearth_kokoro.text.clean import Clean, clean, mark_of
from hearth_kokoro.text.dates import day_of_month, month_initials, month_names
from hearth_kokoro.text.formulas import spell
from hearth_kokoro.text.joined import joined
from hearth_kokoro.text.lexicon.shape import Lexicon
from hearth_kokoro.text.said import Said, pause_of
from hearth_kokoro.text.state import State
from hearth_kokoro.text.token import Pause

_DASHES = frozenset({"—", "–", "-", "--", "---", "―"})
_FIGURE = re.compile(r"[\d½⅓⅔¼¾⅛]")


def say(window: Window, bare: Clean, state: State, lexicon: Lexicon) -> tuple[int, Said]:
    """Return how many chunks belong to the next token, and what it says; raises More."""
    core = bare.core
    if core.islower() and core.isalpha() and not bare.aside and core not in _special(lexicon):
        if not bare.ends:
            return 1, _simple(core, lexicon)
        if bare.ends == ",":
            return 1, _simple_clause(core, lexicon)
    if not core:
        return 1, _marks_alone(window.chunks[0], bare, state)
    if core in _DASHES:
        return 1, _dash(window.chunks[0], bare, state, lexicon)
    if short := abbreviation(window, bare, state, lexicon):
        return short
    if _FIGURE.search(core) or core in lexicon.money:
        used, bare = joined(window, bare, lexicon)
        text = _figures(window, used, bare.core, state, lexicon)
        pause = _after_figures(window, used, bare, lexicon)
        said = Said(text, pause=pause, word=bare.core.lower(), number=True)
    else:
        used, text = 1, _word(window, bare, state, lexicon)
        pause = _after_month(window, bare, lexicon)
        said = Said(text, pause=pause, word=core.lower())
    return used, _ended(window, used, bare, said)


@lru_cache(maxsize=16)
def _special(lexicon: Lexicon) -> frozenset[str]:
    """The words for which it matters what stands around them."""
    return month_names(lexicon) | first_parts(lexicon) | frozenset(lexicon.bare)


@lru_cache(maxsize=4096)
def _simple(word: str, lexicon: Lexicon) -> Said:
    return Said(names.plain(word, lexicon), word=word)


@lru_cache(maxsize=1024)
def _simple_clause(word: str, lexicon: Lexicon) -> Said:
    return _simple(word, lexicon).with_ends(",")


def _ended(window: Window, used: int, bare: Clean, said: Said) -> Said:
    """Put the marks behind a word, and the pause that they ask for here."""
    chunk = window.chunks[used - 1]
    if bare.aside and not bare.ends and not chunk.breaks and chunk.after:
        return said.with_ends(",")
    mark = mark_of(bare.ends)
    if chunk.text.endswith("—"):
        return replace(said, mark=mark or "—", pause=Pause.CLAUSE)
    # A unit's dot: "15:30 h. el lunes".
    if (
        mark == "."
        and said.number
        and bare.core[-1].isalpha()
        and (_next(window, used)[:1].islower() or _next(window, used) in {"-", "–"})
    ):
        return said
    if not mark:
        return said
    pause = pause_of(mark)
    # "Really?" she asked: what was said ends, the sentence does not.
    if pause == Pause.SENTENCE and bare.quoted and _next(window, used)[:1].islower():
        pause = Pause.CLAUSE
    if mark == "…" and _next(window, used)[:1].isupper():
        pause = Pause.SENTENCE
    return replace(said, mark=mark, pause=pause)


def _next(window: Window, used: int) -> str:
    """Return what is known to come next: a word's first letter at least; raises More."""
    last = window.chunks[used - 1]
    if last.after.isalnum() or not last.after:
        return last.after
    further = window.peek(used)
    return clean(further.text).core if further else ""


def _marks_alone(chunk: Chunk, bare: Clean, state: State) -> Said:
    mark = mark_of(bare.ends)
    if mark == "…" and chunk.text.strip(".…") == "" and not state.line_start:
        return Said("…", pause=Pause.CLAUSE)
    if chunk.text == "|":
        return Said("", pause=Pause.CLAUSE)
    opens = bool(chunk.text) and chunk.text[-1] in "([{«“„‹¿¡"
    if opens and chunk.space:
        return Said("", pause=Pause.NONE)
    return Said("", pause=pause_of(mark) if state.until else Pause.WORD)


def _dash(chunk: Chunk, bare: Clean, state: State, lexicon: Lexicon) -> Said:
    if state.number and chunk.after.isdecimal() and bare.core != "—" and lexicon.to:
        # "10:30 a.m. - 11 p.m." is a range; "5 - 3" is not, unless the dash is longer.
        is_range = bare.core == "–" or ":" in state.word or state.word[-1:].isalpha()
        return Said(lexicon.to if is_range else lexicon.minus)
    if state.line_start or not chunk.after:
        return Said("")
    return Said("—", pause=Pause.CLAUSE)


def _word(window: Window, bare: Clean, state: State, lexicon: Lexicon) -> str:
    core = bare.core
    # Half past ten: "10:30 बजे" has said its hour.
    if core == "बजे" and ":" in state.word:
        return ""
    if lexicon.numbers and core[0] in "IVXLCM":
        chunk = window.chunks[0]
        after = ""
        if not bare.ends and chunk.after.isalpha() and len(core) > 1 and core.isupper():
            further = window.peek(1)
            after = clean(further.text).core.lower() if further else ""
        if said := names.roman(core, state.word, after, lexicon):
            return said
    return _known_word(core, bare.is_code, lexicon)


@lru_cache(maxsize=4096)
def _known_word(core: str, is_code: bool, lexicon: Lexicon) -> str:
    """Say a word for which it does not matter what stands around it."""
    if said := names.address(core, lexicon) or lexicon.bare.get(core.lower()):
        return said
    if core in lexicon.units and not core.isalpha():
        return lexicon.units[core][1].replace("{}", "")
    if names.is_dotted(core):
        return spell(core.replace(".", ""), lexicon)
    return names.plain(core, lexicon, is_code=is_code)


def _figures(window: Window, used: int, core: str, state: State, lexicon: Lexicon) -> str:
    """Say figures, which beside a month are its day."""
    if core.isdecimal() and len(core) <= 2 and 1 <= int(core) <= 31 and lexicon.months:
        english = lexicon.language.startswith("en")
        if _month_follows(window, used, lexicon):
            day = day_of_month(core, lexicon)
            return f"{'' if state.word == 'the' else 'the '}{day} of" if english else day
        if english and state.word in month_names(lexicon):
            return day_of_month(core, lexicon)
    if (said := names.address(core, lexicon)) and not re.fullmatch(r"[\d.,]+", core):
        return said
    if said := lexicon.bare.get(core):
        return said
    said = amount(core, lexicon)
    if said is None and core[:1] in "([" and len(core) > 1:
        said = amount(core[1:], lexicon)
    parted = "-" in core.strip("-") and len(core) <= 24 and not names.MINUS.search(core)
    if said is None and parted:
        parts = core.split("-")
        return " ".join(filter(None, (_part(part, lexicon) for part in parts)))
    return names.plain(core, lexicon) if said is None else said


def _part(part: str, lexicon: Lexicon) -> str:
    return amount(part, lexicon) or (names.plain(part, lexicon) if part else "")


def _month_follows(window: Window, used: int, lexicon: Lexicon) -> bool:
    last = window.chunks[used - 1]
    if last.breaks or last.after.lower() not in month_initials(lexicon):
        return False
    further = window.peek(used)
    return further is not None and clean(further.text).core.lower() in month_names(lexicon)


def _after_figures(window: Window, used: int, bare: Clean, lexicon: Lexicon) -> Pause:
    """A day is not cut from its month."""
    if bare.ends or not bare.core.isdecimal() or len(bare.core) > 2 or not lexicon.months:
        return Pause.WORD
    return Pause.NONE if _month_follows(window, used, lexicon) else Pause.WORD


def _after_month(window: Window, bare: Clean, lexicon: Lexicon) -> Pause:
    """Neither is a month from the figures behind it."""
    chunk = window.chunks[0]
    if chunk.after.isdecimal() and not chunk.breaks and not bare.ends:
        return Pause.NONE if bare.core.lower() in month_names(lexicon) else Pause.WORD
    return Pause.WORD
