"""Says halves and thirds: ½, 1½, 3/4."""

import re

from hearth_kokoro.text.lexicon.shape import Lexicon
from hearth_kokoro.text.numbers import cardinal

FRACTIONS = {"½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅛": "1/8"}
_HALVES = {
    "en": {
        "1/2": "half",
        "1/3": "third",
        "2/3": "two thirds",
        "1/4": "quarter",
        "3/4": "three quarters",
        "1/8": "eighth",
    },
    "es": {
        "1/2": "medio",
        "1/3": "un tercio",
        "2/3": "dos tercios",
        "1/4": "un cuarto",
        "3/4": "tres cuartos",
        "1/8": "un octavo",
    },
    "fr": {
        "1/2": "demi",
        "1/3": "un tiers",
        "2/3": "deux tiers",
        "1/4": "un quart",
        "3/4": "trois quarts",
        "1/8": "un huitième",
    },
    "it": {
        "1/2": "mezzo",
        "1/3": "un terzo",
        "2/3": "due terzi",
        "1/4": "un quarto",
        "3/4": "tre quarti",
        "1/8": "un ottavo",
    },
    "pt": {
        "1/2": "meio",
        "1/3": "um terço",
        "2/3": "dois terços",
        "1/4": "um quarto",
        "3/4": "três quartos",
        "1/8": "um oitavo",
    },
}
_AND = {"en": "and", "es": "y", "fr": "et", "it": "e", "pt": "e", "hi": "और"}


def fraction(match: re.Match[str], lexicon: Lexicon) -> str:
    """Return a fraction in words, with the whole before it."""
    whole, text = match["whole"], FRACTIONS.get(match["part"], match["part"])
    kind = lexicon.language[:2]
    part = _HALVES.get(kind, {}).get(text)
    if part is None:
        over = {"en": "over", "es": "sobre", "fr": "sur", "it": "su", "pt": "sobre"}.get(
            kind, "बटा"
        )
        top, _, bottom = text.partition("/")
        # 9/11 and 24/7 are no fractions.
        between = over if 2 <= int(bottom) <= 10 or bottom == "100" else ""
        part = " ".join(filter(None, (cardinal(top, lexicon), between, cardinal(bottom, lexicon))))
    elif kind == "en" and text.startswith("1/"):
        part = f"a {part}" if whole else ("one " + part)
    return f"{cardinal(whole, lexicon)} {_AND.get(kind, '')} {part}" if whole else part
