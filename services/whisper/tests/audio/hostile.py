"""Small files that are expensive to read; no recorder makes such files."""

import io
import struct

import av

from .sounds import wav

MIB = 1024 * 1024


def packets(*sizes: int, rate: int = 8_000) -> bytes:
    """Return a Matroska file with packets of these sizes, in samples."""
    out = io.BytesIO()
    with av.open(out, "w", format="matroska") as file:
        stream = file.add_stream("pcm_u8", rate=rate)
        stream.layout = "mono"
        for number, size in enumerate(sizes):
            packet = av.Packet(b"\x80" * size)
            packet.stream, packet.pts, packet.dts = stream, number, number
            file.mux(packet)
    return out.getvalue()


def slow() -> bytes:
    """Return a wav file of 90 minutes in 11 kB: its header states a rate of 1 Hz."""
    return wav(bytes(2 * 5_400), rate=1)


def atoms(size: int) -> bytes:
    """Return an mp4 file of millions of empty atoms."""
    begin = struct.pack(">I4s4sI", 16, b"ftyp", b"isom", 0)
    return begin + struct.pack(">I4s", 8, b"free") * (size // 8)
