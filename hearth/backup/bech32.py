"""Bech32 (BIP 173) without its limit of 90 signs: the form of age's keys."""

_SIGNS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
KEY_BYTES = 32


def encode(prefix: str, raw: bytes) -> str:
    """Write bytes as text with a checksum, in small letters."""
    bits = int.from_bytes(raw) << (-8 * len(raw) % 5)
    count = (8 * len(raw) + 4) // 5
    values = [bits >> (5 * at) & 31 for at in reversed(range(count))]
    mark = _polymod([*_expanded(prefix), *values, 0, 0, 0, 0, 0, 0]) ^ 1
    checksum = [mark >> (5 * at) & 31 for at in reversed(range(6))]
    return f"{prefix}1" + "".join(_SIGNS[value] for value in [*values, *checksum])


def decode(prefix: str, text: str) -> bytes | None:
    """Return the 32 bytes of a text in small letters, or None when anything about it is wrong."""
    begin = f"{prefix}1"
    if not text.startswith(begin) or not set(text[len(begin) :]) <= set(_SIGNS):
        return None
    values = [_SIGNS.index(sign) for sign in text[len(begin) :]]
    if len(values) < 6 or _polymod([*_expanded(prefix), *values]) != 1:
        return None
    bits = 0
    for value in values[:-6]:
        bits = bits << 5 | value
    spare = 5 * len(values[:-6]) - 8 * KEY_BYTES
    if not 0 <= spare < 5 or bits & ((1 << spare) - 1):
        return None
    return (bits >> spare).to_bytes(KEY_BYTES)


def _expanded(prefix: str) -> list[int]:
    return [ord(sign) >> 5 for sign in prefix] + [0] + [ord(sign) & 31 for sign in prefix]


def _polymod(values: list[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for at, term in enumerate(_GENERATOR):
            check ^= term if top >> at & 1 else 0
    return check
