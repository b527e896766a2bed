"""Says abbreviations in full: titles, initials, and those with which a sentence may end."""

import re
from dataclasses import replace
from functools import lru_cache

from hearth_kokoro.text import names
from hearth_kokoro.text.chunks import Window
from hearth_kokoro.text.clean import Clean, clean
from hearth_kokoro.text.formulas import spell
from hearth_kokoro.text.lexicon.shape import Lexicon
from hearth_kokoro.text.said import Said
from hearth_kokoro.text.state import State
from hearth_kokoro.text.token import Pause

_COUNT = re.compile(r"[\d$€£]|[IVXLC]+$")


@lru_cache(maxsize=16)
def first_parts(lexicon: Lexicon) -> frozenset[str]:
    """Return the first words of abbreviations that are written with a space: e. g., p. ej."""
    keys = (*lexicon.titles, *lexicon.short)
    return frozenset(key.split()[0].rstrip(".") for key in keys if " " in key)


def abbreviation(
    window: Window, bare: Clean, state: State, lexicon: Lexicon
) -> tuple[int, Said] | None:
    """Return an abbreviation in full, or None when this is a plain word; raises More."""
    chunk, key = window.chunks[0], bare.core.lower()
    used, ends = 1, bare.ends
    if key.rstrip(".") in first_parts(lexicon) and not chunk.breaks and chunk.after:
        further = window.peek(1)
        second = clean(further.text) if further else Clean("", "")
        both = f"{key}{'.' if ends == '.' else ''} {second.core.lower()}"
        if (both in lexicon.titles or both in lexicon.short) and second.ends.startswith("."):
            used, key, ends = 2, both, second.ends
    if not ends.startswith("."):
        return None
    following = _following(window, used)
    if key in lexicon.late and (len(ends) > 1 or not _is_name(following, lexicon)):
        said = Said(lexicon.late[key])
        return used, _short(said, ends, following, lexicon, key)
    if key in lexicon.titles and _fits(key, bare, following, lexicon):
        said = Said(lexicon.titles[key], word=key)
        if not following.core or (key in lexicon.dated and not following.core[0].isdecimal()):
            return used, _short(said, ends, following, lexicon, key)
        return used, replace(said, pause=Pause.NONE).with_ends(ends[1:])
    if key in lexicon.short:
        return used, _short(Said(lexicon.short[key]), ends, following, lexicon, key)
    if names.is_dotted(bare.core):
        letters = spell(bare.core.replace(".", ""), lexicon)
        return 1, _short(Said(letters), ends, following, lexicon, key)
    if _is_initial(bare, following, lexicon):
        return 1, Said(spell(bare.core, lexicon), pause=Pause.NONE, word=key)
    return None


def _fits(key: str, bare: Clean, following: Clean, lexicon: Lexicon) -> bool:
    if key in lexicon.counted:
        # "No. I won't": what follows is no figure.
        return bool(_COUNT.match(following.core)) and (key, following.core) != ("no", "I")
    if key in lexicon.dated:
        return bare.core[:1].isupper()
    return len(key) > 1 or bare.core.islower() or following.core[:1].isupper()


def _short(said: Said, ends: str, following: Clean, lexicon: Lexicon, key: str) -> Said:
    """Say an abbreviation with which a sentence may end, and whether it does."""
    said = replace(said, word=key)
    if len(ends) > 1:
        return said.with_ends(ends[1:])
    first = following.core
    if not first:
        return said.with_ends(".")
    listing = lexicon.short.get(key, "").endswith(("cetera", "cétera", "ccetera"))
    starts = first[0].isupper() and (listing or first.lower() in lexicon.starters)
    return said.with_ends(".") if starts else said


def _following(window: Window, used: int) -> Clean:
    last = window.chunks[used - 1]
    further = window.peek(used) if last.breaks < 2 else None
    return clean(further.text) if further else Clean("", "")


def _is_initial(bare: Clean, following: Clean, lexicon: Lexicon) -> bool:
    """Whether this is a letter of a name: J. K. Rowling."""
    if len(bare.core) != 1 or not bare.core.isupper() or bare.ends != ".":
        return False
    another = len(following.core) == 1 and following.ends == "."
    return another or _is_name(following, lexicon)


def _is_name(following: Clean, lexicon: Lexicon) -> bool:
    return following.core[:1].isupper() and following.core.lower() not in lexicon.starters
