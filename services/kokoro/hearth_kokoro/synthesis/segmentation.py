"""Cuts a text into segments: the first one is short, later ones are as long as time allows."""

from collections.abc import Sequence
from dataclasses import dataclass

from hearth_kokoro.engines import MAX_PHONEMES
from hearth_kokoro.synthesis.cost_model import SynthesisRate
from hearth_kokoro.text.tokens import Pause, Token

LONGEST = 250
"""The most spoken characters of a segment: about 20 s of sound, well below 510 phonemes."""
# The first segment may take this share of the time of a 90-character phrase; the goal is 0.20.
_PHRASE, _FIRST_SHARE = 90, 0.16
# Nobody notices a shorter wait than this, and a whole clause sounds better.
_UNNOTICED_S = 0.1
# The share of the buffered time that a segment may take: estimates are off by up to a third.
_SAFE_SHARE = 0.75
# A longer pause is worth a shorter segment, down to this share of what time allows.
_PAUSE_WORTH = ((Pause.PARAGRAPH, 0.3), (Pause.SENTENCE, 0.3), (Pause.CLAUSE, 0.4))
# In a tiny segment most of the cost is fixed: the growing part is at least so many times that.
_FIXED_PARTS = 3
_LARGEST_MINIMUM = 30
# A machine that speaks hardly faster than people listen has gaps if nothing is held back: few of
# them, and at clauses.
_TOO_SLOW, _CLAUSE = 0.85, 60
# Single short words sound bad: a longer first segment is better.
_SHORTEST = 10


@dataclass(frozen=True, slots=True)
class Boundary:
    """A place to cut: the tokens and the spoken characters before it, and its pause."""

    end: int
    size: int
    pause: Pause


def spoken_text(tokens: Sequence[Token]) -> str:
    """Return the spoken text of these tokens, with single spaces between words."""
    words = (f"{token.spoken} " if _ends_word(token) else token.spoken for token in tokens)
    return " ".join("".join(words).split())


def _ends_word(token: Token) -> bool:
    # "Dr. " is never cut from the name after it, but it is a separate word.
    return token.pause >= Pause.WORD or token.source[-1:].isspace()


def boundaries(tokens: Sequence[Token]) -> list[Boundary]:
    """Return every place to cut, in order; the last one is the end of the text.

    Tokens without spoken text go with the word before them (or the first word), unless they are
    glued to the word after them. So every segment has a word if the text has one.
    """
    found: list[Boundary] = []
    size = 0
    for index, token in enumerate(tokens):
        size += len(token.spoken) + bool(token.spoken and _ends_word(token))
        last = index + 1 == len(tokens)
        if not last and (token.pause < Pause.WORD or not size):
            continue
        pause = token.pause
        if found and found[-1].size == size:
            pause = max(pause, found.pop().pause)
        found.append(Boundary(index + 1, size, pause))
    return found


def next_boundary(
    places: Sequence[Boundary],
    rate: SynthesisRate,
    buffered_s: float,
    start: int = 0,
    *,
    may_stall: bool = False,
) -> Boundary:
    """Return the end of the longest segment that is ready before the client runs dry.

    `buffered_s` is the time that the client can still play; `start` counts the characters before
    the segment. The longest pause within the limit wins; a segment has at least one word. Speech
    that `may_stall` on a slow machine has whole clauses.
    """
    least = _minimum_size(rate, may_stall)
    allowed = min(LONGEST, max(rate.characters_in(buffered_s * _SAFE_SHARE), least))
    within = [place for place in places if place.size - start <= allowed]
    if not within or len(within) == len(places):
        return within[-1] if within else places[0]
    for pause, worth in _PAUSE_WORTH:
        good = [place for place in within if place.pause >= pause]
        if good and good[-1].size - start >= worth * min(allowed, within[-1].size - start):
            return good[-1]
    return within[-1]


def _minimum_size(rate: SynthesisRate, may_stall: bool) -> float:
    if rate.per_character_s > _TOO_SLOW * rate.sound_per_character_s:
        return _CLAUSE if may_stall else _LARGEST_MINIMUM
    return min(_LARGEST_MINIMUM, _FIXED_PARTS * rate.fixed_s / rate.per_character_s)


def first_boundary(
    places: Sequence[Boundary], rate: SynthesisRate, *, may_stall: bool = False
) -> Boundary:
    """Return the end of the first segment: a clause, or at least two words of a long clause.

    The segment is longer only where the next one would otherwise come too late.
    """
    target = preferred_first_size(rate)
    preferred = _preferred_index(places, target)
    # In seconds: where most of a short segment's cost is fixed, more text adds little.
    limit_s = 3 * rate.cost_s(max(target, places[preferred].size))
    for index in range(preferred, len(places)):
        if places[index].size > LONGEST or rate.cost_s(places[index].size) > limit_s:
            break
        if _leaves_no_gap(places, index, rate, may_stall):
            return places[index]
    return places[preferred]


def preferred_first_size(rate: SynthesisRate) -> float:
    """Return how many characters the first segment may have so that its sound starts soon."""
    seconds = max(_UNNOTICED_S, _FIRST_SHARE * rate.cost_s(_PHRASE))
    return min(LONGEST, rate.characters_in(seconds))


def _preferred_index(places: Sequence[Boundary], target: float) -> int:
    for index, place in enumerate(places):
        if place.size > target:
            break
        if place.pause >= Pause.CLAUSE:
            return index
    fitting = sum(place.size <= target for place in places)
    return min(len(places), max(2, fitting)) - 1


def _leaves_no_gap(
    places: Sequence[Boundary], index: int, rate: SynthesisRate, may_stall: bool
) -> bool:
    """Return whether speech whose first segment ends here continues without a gap."""
    # The space that ends a segment counts in its size and makes no sound.
    buffered_s, enough_s = rate.sound_s(places[index].size - 1), rate.cost_s(_PHRASE)
    while index + 1 < len(places) and buffered_s < enough_s:
        start, rest = places[index].size, places[index + 1 :]
        place = next_boundary(rest, rate, buffered_s, start, may_stall=may_stall)
        cost_s = rate.cost_s(place.size - start)
        if cost_s > buffered_s or (place.size - start < _SHORTEST and place is not rest[-1]):
            return False
        buffered_s += rate.sound_s(place.size - start - 1) - cost_s
        index += 1 + rest.index(place)
    return True


def middle_boundary(places: Sequence[Boundary]) -> Boundary | None:
    """Return the best place near the middle of a segment that is too long; None for one word."""
    if len(places) < 2:
        return None
    half = places[-1].size / 2
    return min(places[:-1], key=lambda place: abs(place.size - half) - 0.2 * half * place.pause)


def split_phonemes(phonemes: str) -> list[str]:
    """Split phonemes into parts that the model accepts, between words if possible."""
    found: list[str] = []
    rest = phonemes.strip()
    while len(rest) > MAX_PHONEMES:
        space = rest.rfind(" ", MAX_PHONEMES // 2, MAX_PHONEMES + 1)
        end = space if space > 0 else MAX_PHONEMES
        found.append(rest[:end].strip())
        rest = rest[end:].strip()
    return [*found, rest] if rest else found
