"""Hours of sound in pieces that fit into memory, cut where it is quietest."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from hearth_whisper.recognising import SAMPLE_RATE, Samples, Sound

# The spectrogram of a piece is held as a whole: five minutes take 150 MB for a moment.
PIECE_S = 300
"""The most seconds that are recognised at once."""
_SEARCHED_S = 20
_QUIET_S = 0.2


@dataclass(frozen=True, slots=True)
class Piece:
    """Some sound, and where it begins in the whole."""

    start_s: float
    samples: Samples


def pieces(sound: Sound, most_s: float = PIECE_S) -> Iterator[Piece]:
    """Yield the sound in pieces of at most `most_s`; of an empty one nothing."""
    most, at = round(most_s * SAMPLE_RATE), 0
    held: list[Samples] = []
    for block in _blocks(sound, most):
        held.append(block)
        while sum(one.size for one in held) > most:
            whole = np.concatenate(held)
            cut = _quietest(whole[:most])
            yield Piece(at / SAMPLE_RATE, whole[:cut])
            at += cut
            held = [whole[cut:]]
    rest = np.concatenate(held) if held else np.zeros(0, np.float32)
    if rest.size:
        yield Piece(at / SAMPLE_RATE, rest)


def _blocks(sound: Sound, most: int) -> Iterable[Samples]:
    """Yield blocks of at most a piece: larger ones would be copied again for each piece of them."""
    for block in [sound] if isinstance(sound, np.ndarray) else sound:
        for at in range(0, block.size, most):
            yield block[at : at + most]


def _quietest(piece: Samples) -> int:
    """Return where to cut in the last seconds: in the middle of the quietest fifth of one."""
    span = round(_QUIET_S * SAMPLE_RATE)
    searched = min(piece.size // 2, _SEARCHED_S * SAMPLE_RATE) // span * span
    if not searched:
        return int(piece.size)
    spans = piece[piece.size - searched :].reshape(-1, span)
    loud = np.square(spans).mean(axis=1)
    # Of equally quiet ones the last, so that a piece is long.
    quietest = loud.size - 1 - int(np.argmin(loud[::-1]))
    return int(piece.size - searched + quietest * span + span // 2)
