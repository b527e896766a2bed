"""Says what chemists write: CO₂, H2SO4, Ca²⁺."""
# The signs that look like others are meant: they are what people write.

import re

from hearth_kokoro.text.lexicon.shape import Lexicon
from hearth_kokoro.text.numbers import cardinal

_ELEMENT = "Na|Cl|Ca|Mg|Fe|Cu|Al|Si|Zn|Ag|Au|Pb|Li|Br|He|H|C|N|O|S|P|K|F|I"
_FORMULA = re.compile(rf"(?P<parts>(?:(?:{_ELEMENT})\d{{0,2}}){{1,8}})(?P<charge>[²³]?[⁺⁻])?")
_PART = re.compile(r"([A-Za-z]+)(\d*)")
_FIGURES = {"²": "2", "³": "3"}


def spell(letters: str, lexicon: Lexicon) -> str:
    """Return letters so that each is said by its name."""
    said = lexicon.joint.join(letters.upper())
    return lexicon.letters.get(said, said)


def formula(core: str, lexicon: Lexicon) -> str | None:
    """Return how a molecule or an ion is said, or None when this is neither."""
    if not lexicon.numbers or not (found := _FORMULA.fullmatch(core)):
        return None
    charge = found["charge"] or ""
    if not charge and not any(letter.isdecimal() for letter in core):
        return None
    said = []
    for letters, figures in _PART.findall(found["parts"]):
        said += [spell(letters, lexicon), cardinal(figures, lexicon) if figures else ""]
    if charge:
        figure, sign = _FIGURES.get(charge[0], ""), charge[-1]
        said += [cardinal(figure, lexicon) if figure else ""]
        said += [lexicon.plus if sign == "⁺" else lexicon.minus]
    return " ".join(filter(None, said))
