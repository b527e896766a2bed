"""Whisper's vocabulary in shape: bytes, made-up words, and the real special tokens' numbers."""

from __future__ import annotations

import json
from typing import Any

from tests.mock_upstreams.whisper.sizes import Size

_CODES = """
en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th ur hr
bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn
yo so af oc ka be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su
yue
"""
LANGUAGES = _CODES.split()
"""In the order of their tokens in the releases."""
_SENTENCE = """
the fire is warm and house has a long room where we sit in evening when rain falls on old roof but
nobody wants to go out before morning comes with light over hills
"""
COMMON = _SENTENCE.split()
TIMES = 1501
_SYLLABLES = [c + v for c in "bdfghjklmnprstvwxyzc" for v in "aeiou"]
# Where a made-up word would be, younger runtimes want the empty one of the real vocabulary.
_EMPTY = 50256


def vocabulary(size: Size) -> list[str]:
    """Return every token in the order of its number."""
    plain = 50257 if size.multilingual else 50256
    words = [*_bytes(), *("Ġ" + word for word in dict.fromkeys(COMMON))]
    number = 0
    while len(words) < plain:
        words.append("Ġ" + _made_up(number))
        number += 1
    if size.multilingual:
        words[_EMPTY] = ""
    return [*words, *special(size.languages), *(f"<|{n * 0.02:.2f}|>" for n in range(TIMES))]


def special(languages: int) -> list[str]:
    """Return the tokens that are no words and no times, in order."""
    codes = LANGUAGES[:languages]
    begin = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|{code}|>" for code in codes)]
    tasks = ["translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps"]
    return [*begin, *(f"<|{task}|>" for task in tasks)]


def tokenizer(tokens: list[str]) -> str:
    """Return tokenizer.json; it has no merges, so what is encoded becomes bytes."""
    added: list[dict[str, Any]] = [
        {
            "id": number,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": number < len(tokens) - TIMES,
        }
        for number, token in enumerate(tokens)
        if token.startswith("<|") and token.endswith("|>")
    ]
    levels = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    content: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {**levels, "use_regex": True},
        "post_processor": None,
        "decoder": {**levels, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {
                token: number for number, token in enumerate(tokens) if number < added[0]["id"]
            },
            "merges": [],
        },
    }
    return json.dumps(content, ensure_ascii=False)


def _bytes() -> list[str]:
    """Return the 256 signs that stand for bytes in such a vocabulary."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return [chr(byte) for byte in shown] + [chr(256 + n) for n in range(len(hidden))]


def _made_up(number: int) -> str:
    """Return a word of three or more syllables, another one for each number."""
    word = ""
    while number or len(word) < 6:
        number, rest = divmod(number, len(_SYLLABLES))
        word += _SYLLABLES[rest]
    return word
