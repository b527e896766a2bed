"""Which part of a text is the next piece: short at first, then as long as the clock allows."""

from collections.abc import Sequence
from dataclasses import dataclass

from hearth_kokoro.engines import MAX_PHONEMES
from hearth_kokoro.speaking.pace import Rate
from hearth_kokoro.text.token import Pause, Token

LONGEST = 250
"""The most spoken characters of a piece: about 20 seconds of sound, well below 510 phonemes."""
# The first piece may take this part of what a phrase of 90 characters takes; the reach is 0.20.
_PHRASE, _FIRST_SHARE = 90, 0.16
# Where a machine is that fast, a shorter wait is not heard, and a whole clause sounds better.
_UNHEARD_S = 0.1
# The part of the time left that a piece may take: estimates are off by up to a third.
_SAFE_SHARE = 0.75
# A better place to cut is worth a shorter piece, down to this part of what the clock allows.
_WORTH = ((Pause.PARAGRAPH, 0.3), (Pause.SENTENCE, 0.3), (Pause.CLAUSE, 0.4))
# Tiny pieces only make a machine slower: what grows is at least so many times the fixed part.
_FIXED_PARTS = 3
_LEAST_AT_MOST = 30
# A machine that speaks no faster than people listen must pause: then rarely, and at a clause.
_TOO_SLOW, _CLAUSE = 0.85, 60
# A single short word after another is no speech: rather a longer first piece than that.
_SHORTEST = 10


@dataclass(frozen=True, slots=True)
class Cut:
    """A place to cut: after so many tokens and spoken characters, with such a pause."""

    end: int
    size: int
    pause: Pause


def spoken(tokens: Sequence[Token]) -> str:
    """Return what is said for these tokens, with a space wherever there is one or a pause."""
    said = (f"{token.spoken} " if _is_apart(token) else token.spoken for token in tokens)
    return " ".join("".join(said).split())


def _is_apart(token: Token) -> bool:
    # "Dr. " is never cut from the name after it, and is a word of its own all the same.
    return token.pause >= Pause.WORD or token.source[-1:].isspace()


def cuts(tokens: Sequence[Token]) -> list[Cut]:
    """Return every place to cut, in order; the last is the end; never empty unless tokens are.

    What nobody says goes with the word before it (or the first word), unless it is glued to
    the word after it, so a piece has something to say wherever the text has.
    """
    found: list[Cut] = []
    size = 0
    for index, token in enumerate(tokens):
        size += len(token.spoken) + bool(token.spoken and _is_apart(token))
        last = index + 1 == len(tokens)
        if not last and (token.pause < Pause.WORD or not size):
            continue
        pause = token.pause
        if found and found[-1].size == size:
            pause = max(pause, found.pop().pause)
        found.append(Cut(index + 1, size, pause))
    return found


def next_cut(places: Sequence[Cut], rate: Rate, lead_s: float, said: int = 0) -> Cut:
    """Return the cut that makes the longest piece that is ready before the listener runs dry.

    `lead_s` is how long what was handed over still plays; `said` are the characters before
    the piece. The best pause within reach is taken; at least one word always is.
    """
    allowed = min(LONGEST, max(rate.characters_in(lead_s * _SAFE_SHARE), _least(rate)))
    within = [cut for cut in places if cut.size - said <= allowed]
    if not within or len(within) == len(places):
        return within[-1] if within else places[0]
    for pause, worth in _WORTH:
        good = [cut for cut in within if cut.pause >= pause]
        if good and good[-1].size - said >= worth * min(allowed, within[-1].size - said):
            return good[-1]
    return within[-1]


def _least(rate: Rate) -> float:
    if rate.per_character_s > _TOO_SLOW * rate.sound_per_character_s:
        return _CLAUSE
    return min(_LEAST_AT_MOST, _FIXED_PARTS * rate.fixed_s / rate.per_character_s)


def first_cut(places: Sequence[Cut], rate: Rate) -> Cut:
    """Return the cut of the first piece: a clause, or a few words (two at least) of a long one.

    It is made longer only where the pieces after it would otherwise come too late.
    """
    liked = liked_first(rate)
    preferred = _preferred(places, liked)
    # In seconds: where the fixed part is most of a short piece's cost, more text adds little.
    limit_s = 3 * rate.cost_s(max(liked, places[preferred].size))
    for index in range(preferred, len(places)):
        if places[index].size > LONGEST or rate.cost_s(places[index].size) > limit_s:
            break
        if _holds(places, index, rate):
            return places[index]
    return places[preferred]


def liked_first(rate: Rate) -> float:
    """Return how many characters the first piece may have for its sound to come soon enough."""
    seconds = max(_UNHEARD_S, _FIRST_SHARE * rate.cost_s(_PHRASE))
    return min(LONGEST, rate.characters_in(seconds))


def _preferred(places: Sequence[Cut], liked: float) -> int:
    for index, cut in enumerate(places):
        if cut.size > liked:
            break
        if cut.pause >= Pause.CLAUSE:
            return index
    fitting = sum(cut.size <= liked for cut in places)
    return min(len(places), max(2, fitting)) - 1


def _holds(places: Sequence[Cut], index: int, rate: Rate) -> bool:
    """Tell whether speech that begins with this cut goes on without a gap, as far as it shows."""
    # The space that ends a piece counts in its size and makes no sound.
    lead_s, enough_s = rate.sound_s(places[index].size - 1), rate.cost_s(_PHRASE)
    while index + 1 < len(places) and lead_s < enough_s:
        said, rest = places[index].size, places[index + 1 :]
        cut = next_cut(rest, rate, lead_s, said)
        cost_s = rate.cost_s(cut.size - said)
        if cost_s > lead_s or (cut.size - said < _SHORTEST and cut is not rest[-1]):
            return False
        lead_s += rate.sound_s(cut.size - said - 1) - cost_s
        index += 1 + rest.index(cut)
    return True


def halve(places: Sequence[Cut]) -> Cut | None:
    """Return the best cut near the middle of what turned out too long; None if it is one word."""
    if len(places) < 2:
        return None
    half = places[-1].size / 2
    return min(places[:-1], key=lambda cut: abs(cut.size - half) - 0.2 * half * cut.pause)


def parts(phonemes: str) -> list[str]:
    """Cut phonemes into parts that the model takes, between words where there are any."""
    found: list[str] = []
    rest = phonemes.strip()
    while len(rest) > MAX_PHONEMES:
        space = rest.rfind(" ", MAX_PHONEMES // 2, MAX_PHONEMES + 1)
        end = space if space > 0 else MAX_PHONEMES
        found.append(rest[:end].strip())
        rest = rest[end:].strip()
    return [*found, rest] if rest else found
