"""Takes Ogg apart: which packets are whole once so many bytes are there."""

from __future__ import annotations

from collections.abc import Iterator

from hearth.clients import ClientError

_FIXED = 27
_CONTINUED, _FIRST = 1, 2


def packets(data: bytes) -> Iterator[tuple[int, bool, bytes]]:
    """Yield (end, first, packet): the packet is whole once `end` bytes of `data` are there.

    `first` says that the packet begins a new stream: several may follow each other in one file.
    A page counts when all of it is there, for only then can its checksum be looked at.

    Raises:
        ClientError: this is no Ogg, or it is broken.
    """
    at, rest = 0, b""
    while at < len(data):
        if data[at : at + 4] != b"OggS":
            raise ClientError(f"no Ogg: at byte {at} it has {data[at : at + 4]!r}")
        if at + _FIXED > len(data):
            return
        kind, count = data[at + 5], data[at + 26]
        table = data[at + _FIXED : at + _FIXED + count]
        body = at + _FIXED + count
        end = body + sum(table)
        if end > len(data) or len(table) < count:
            return
        if not kind & _CONTINUED:
            rest = b""
        first = bool(kind & _FIRST)
        for lacing in table:
            rest += data[body : body + lacing]
            body += lacing
            # 255 says that the packet goes on in the next segment.
            if lacing < 255:
                yield end, first, rest
                first, rest = False, b""
        at = end
