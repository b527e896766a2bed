"""Expands abbreviations: titles, initials, and abbreviations that may end a sentence."""

import re
from dataclasses import replace
from functools import lru_cache

from hearth_kokoro.text.chunks import Window
from hearth_kokoro.text.cleaning import CleanWord, clean_word
from hearth_kokoro.text.lexicon.schema import Lexicon
from hearth_kokoro.text.special_words import is_dotted, spell
from hearth_kokoro.text.tokens import Pause, SpokenForm, TokenizerState

_COUNT = re.compile(r"[\d$€£]|[IVXLC]+$")


@lru_cache(maxsize=16)
def first_parts(lexicon: Lexicon) -> frozenset[str]:
    """Return the first words of abbreviations that contain a space: e. g., p. ej."""
    keys = (*lexicon.titles, *lexicon.short)
    return frozenset(key.split()[0].rstrip(".") for key in keys if " " in key)


def verbalize_abbreviation(
    window: Window, clean: CleanWord, state: TokenizerState, lexicon: Lexicon
) -> tuple[int, SpokenForm] | None:
    """Return an abbreviation in full, None for any other word; raises NeedsMoreText."""
    chunk, key = window.chunks[0], clean.core.lower()
    used, ends = 1, clean.ends
    if key.rstrip(".") in first_parts(lexicon) and not chunk.line_breaks and chunk.after:
        next_chunk = window.peek(1)
        second = clean_word(next_chunk.text) if next_chunk else CleanWord("", "")
        both = f"{key}{'.' if ends == '.' else ''} {second.core.lower()}"
        if (both in lexicon.titles or both in lexicon.short) and second.ends.startswith("."):
            used, key, ends = 2, both, second.ends
    if not ends.startswith("."):
        return None
    following = _following_word(window, used)
    if key in lexicon.late and (len(ends) > 1 or not _is_name(following, lexicon)):
        spoken = SpokenForm(lexicon.late[key])
        return used, _short(spoken, ends, following, lexicon, key)
    if key in lexicon.titles and _fits(key, clean, following, lexicon):
        spoken = SpokenForm(lexicon.titles[key], word=key)
        if not following.core or (key in lexicon.dated and not following.core[0].isdecimal()):
            return used, _short(spoken, ends, following, lexicon, key)
        return used, replace(spoken, pause=Pause.NONE).with_punctuation(ends[1:])
    if key in lexicon.short:
        return used, _short(SpokenForm(lexicon.short[key]), ends, following, lexicon, key)
    if is_dotted(clean.core):
        letters = spell(clean.core.replace(".", ""), lexicon)
        return 1, _short(SpokenForm(letters), ends, following, lexicon, key)
    if _is_initial(clean, following, lexicon):
        return 1, SpokenForm(spell(clean.core, lexicon), pause=Pause.NONE, word=key)
    return None


def _fits(key: str, clean: CleanWord, following: CleanWord, lexicon: Lexicon) -> bool:
    if key in lexicon.counted:
        # In "No. I won't" the next word is not a number.
        return bool(_COUNT.match(following.core)) and (key, following.core) != ("no", "I")
    if key in lexicon.dated:
        return clean.core[:1].isupper()
    return len(key) > 1 or clean.core.islower() or following.core[:1].isupper()


def _short(
    spoken: SpokenForm, ends: str, following: CleanWord, lexicon: Lexicon, key: str
) -> SpokenForm:
    """Return an abbreviation that may end a sentence, with a full stop if it does."""
    spoken = replace(spoken, word=key)
    if len(ends) > 1:
        return spoken.with_punctuation(ends[1:])
    first = following.core
    if not first:
        return spoken.with_punctuation(".")
    listing = lexicon.short.get(key, "").endswith(("cetera", "cétera", "ccetera"))
    starts = first[0].isupper() and (listing or first.lower() in lexicon.starters)
    return spoken.with_punctuation(".") if starts else spoken


def _following_word(window: Window, used: int) -> CleanWord:
    last = window.chunks[used - 1]
    following = window.peek(used) if last.line_breaks < 2 else None
    return clean_word(following.text) if following else CleanWord("", "")


def _is_initial(clean: CleanWord, following: CleanWord, lexicon: Lexicon) -> bool:
    """Return whether this is an initial of a name: J. K. Rowling."""
    if len(clean.core) != 1 or not clean.core.isupper() or clean.ends != ".":
        return False
    another = len(following.core) == 1 and following.ends == "."
    return another or _is_name(following, lexicon)


def _is_name(following: CleanWord, lexicon: Lexicon) -> bool:
    return following.core[:1].isupper() and following.core.lower() not in lexicon.starters
