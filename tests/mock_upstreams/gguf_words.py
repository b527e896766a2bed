"""The vocabulary of the made-up models: the words they generate, and every byte as a fallback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import gguf

_TEXT = """
the a of and to in is it that for on with as was at by this from be are or an not but they we you
all can her his has had one our out so up what when who which will there their them then these some
into only other new two three first last more most very much many such no nor yes here where how why
house room door window garden kitchen table chair lamp light fire stone wood iron glass water river
sea wind rain snow sun moon star sky hill road path bridge field forest tree leaf root seed flower
bird cat dog horse fish bee wolf fox bear mouse hand eye voice song word letter name book page story
key lock bell clock wheel rope boat sail map city street market bread salt honey milk apple tea cup
morning evening night day year spring summer autumn winter time hour moment way work rest play dream
small large old young warm cold quiet loud bright dark slow quick soft hard deep high low near far
good kind brave gentle clear simple strange silver golden green blue red white black grey round open
make take give find keep hold carry bring build open close turn move walk run stand sit sleep wake
speak listen hear see look watch think know learn teach read write count answer ask tell say call
begin end grow fall rise shine burn freeze float sing laugh wait help hope four five six seven
"""
MARKS = list(".,;:!?")
STOPS = list(".!?")
END = 2


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens with their scores and types, in the order of their numbers."""

    tokens: list[str]
    scores: list[float]
    types: list[int]
    first_word: int


def unique_words() -> list[str]:
    """Return the words without repetition, in their order."""
    return list(dict.fromkeys(_TEXT.split()))


def sentence_pieces(special: Mapping[str, int] = MappingProxyType({})) -> Vocabulary:
    """Return a SentencePiece vocabulary: unk, begin, end, 256 bytes, special, marks, words.

    `special` are further tokens with their types, found whole wherever a prompt contains them.
    """
    kinds = gguf.TokenType
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    scores = [0.0, 0.0, 0.0] + [-1000.0] * 256
    types = [int(kind) for kind in (kinds.UNKNOWN, *[kinds.CONTROL] * 2, *[kinds.BYTE] * 256)]
    tokens += special
    scores += [0.0] * len(special)
    types += special.values()
    first_word = len(tokens)
    words = MARKS + ["▁" + word for word in unique_words()]
    tokens += words
    # A merge needs every intermediate step as a token, too. So most words of a prompt are read as
    # bytes, and only generated text consists of words.
    scores += [-float(place) for place in range(len(words))]
    types += [kinds.NORMAL] * len(words)
    return Vocabulary(tokens, scores, [int(kind) for kind in types], first_word)


def word_pieces() -> Vocabulary:
    """Return a BERT vocabulary: specials, every printable character, then the words."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    characters = [chr(code) for code in range(33, 127)]
    starts = ["▁" + character for character in characters]
    words = ["▁" + word for word in unique_words() if len(word) > 1]
    tokens = special + characters + starts + words
    kinds = gguf.TokenType
    types = [int(kinds.CONTROL)] * len(special) + [int(kinds.NORMAL)] * (len(tokens) - len(special))
    return Vocabulary(tokens, [0.0] * len(tokens), types, len(special))
