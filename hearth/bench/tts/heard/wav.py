"""Reads WAV as it streams: the sound behind the header, whatever length the header promises."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from hearth.clients import ClientError
from hearth.clients.sound import Chunk

_PCM, _EXTENSIBLE = 1, 0xFFFE
_HEADER_BYTES = 65_536


@dataclass(slots=True)
class Wav:
    """A WAV stream; `rate` and `chunks` are known once its header has come."""

    rate: int = 0
    chunks: list[Chunk] = field(default_factory=list)
    _head: bytes = b""
    _channels: int = 0
    # A stream does not know its length: then the header says 0 or something very large.
    _left: int | None = None
    _begun: bool = False

    def take(self, at_s: float, data: bytes) -> None:
        """Take the next bytes."""
        if not self._begun:
            self._head += data
            data = self._read_head()
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        if data:
            self.chunks.append(Chunk(at_s, data))

    def _read_head(self) -> bytes:
        """Return the sound behind the header once it is whole."""
        head = self._head
        if not b"RIFF".startswith(head[:4]) or not b"WAVE".startswith(head[8:12]):
            raise ClientError(f"no WAV: it begins with {head[:12]!r}")
        at = 12
        while len(head) >= at + 8:
            name, size = struct.unpack_from("<4sI", head, at)
            if name == b"data":
                return self._begin(size, head[at + 8 :])
            if name == b"fmt " and len(head) >= at + 8 + size:
                self._read_format(head[at + 8 : at + 8 + size])
            at += 8 + size + size % 2
        if len(head) > _HEADER_BYTES:
            raise ClientError("no WAV: a header without end")
        return b""

    def _begin(self, size: int, sound: bytes) -> bytes:
        if not self.rate:
            raise ClientError("no WAV: sound before its format")
        self._begun, self._head = True, b""
        self._left = size or None
        return sound

    def _read_format(self, said: bytes) -> None:
        if len(said) < 16:
            raise ClientError("no WAV: its format is cut short")
        kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", said)
        if kind not in (_PCM, _EXTENSIBLE) or channels != 1 or bits != 16 or not rate:
            raise ClientError(
                f"WAV of kind {kind}, {channels} channels and {bits} bits: "
                "only mono of 16 bits is read"
            )
        self.rate = rate


def read(chunks: Iterable[Chunk]) -> Wav:
    """Return the sound of a whole stream with the times at which it was there.

    Raises:
        ClientError: it is no WAV of mono 16-bit sound.
    """
    wav = Wav()
    for at_s, data in chunks:
        wav.take(at_s, data)
    if not wav.rate:
        raise ClientError("no WAV: it ends before its sound begins")
    return wav
