"""One recording on its way: read once into a file without a name, sent on as often as needed.

A recording is never held in memory as a whole, and what is sent on is written anew: whoever it
goes to reads the same fields that were read here.
"""

from __future__ import annotations

import asyncio
import errno
import re
import secrets
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import IO

from hearth_gateway.call import Receive, Scope
from hearth_gateway.form import Form, FormError
from hearth_gateway.request import Stop

# Eight hours of ordinary speech in a modern codec, more than two hours as a plain WAV file.
AUDIO_BYTES = 256 * 1024 * 1024
# The front door hands over what it holds at once; who sends a byte a second shall not stay.
UPLOAD_S = 600.0
# Together with AUDIO_BYTES: what recordings may take of the disk.
AT_ONCE = 16
_BLOCK_BYTES = 256 * 1024
_IN_MEMORY_BYTES = 1024 * 1024
# A disk, in an instance as on a machine; /tmp is memory there.
_FOLDER = "/var/tmp"  # noqa: S108 (the file never has a name)
_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one recording may be, and how many of them there may be."""

    audio_bytes: int = AUDIO_BYTES
    upload_s: float = UPLOAD_S
    at_once: int = AT_ONCE
    folder: str = _FOLDER


@dataclass(slots=True)
class Upload:
    """A whole recording and the words around it."""

    form: Form
    recording: IO[bytes]
    _boundary: str = field(default_factory=lambda: f"hearth-{secrets.token_hex(16)}")

    @property
    def model(self) -> str | None:
        """What stands in `model`."""
        found = self.form.values("model")
        return found[-1].decode(errors="replace") if found else None

    @property
    def streams(self) -> bool:
        """Whether the text shall come as it is heard."""
        found = self.form.values("stream")
        return bool(found) and found[-1].decode(errors="replace").lower() in ("true", "1", "on")

    @property
    def plain(self) -> bool:
        """Whether the answer shall be text or subtitles, not JSON."""
        found = self.form.values("response_format")
        return bool(found) and found[-1].decode(errors="replace") in ("text", "srt", "vtt")

    def headers(self, model: str) -> dict[str, str]:
        """Return the headers of this request to a server that calls the model `model`."""
        length = len(self._head(model)) + self.form.size + len(self._tail())
        kind = f"multipart/form-data; boundary={self._boundary}"
        return {"content-type": kind, "content-length": str(length)}

    async def body(self, model: str) -> AsyncIterator[bytes]:
        """Yield the request for a server that calls the model `model`, from its beginning."""
        yield self._head(model)
        await asyncio.to_thread(self.recording.seek, 0)
        while block := await asyncio.to_thread(self.recording.read, _BLOCK_BYTES):
            yield block
        yield self._tail()

    def _head(self, model: str) -> bytes:
        fields = [(name, value) for name, value in self.form.fields if name != "model"]
        parts = [self._part(name) + value for name, value in [*fields, ("model", model.encode())]]
        kind = self.form.content_type
        kind = kind if _TYPE.fullmatch(kind) else "application/octet-stream"
        named = f'; filename="{_quoted(self.form.filename or "recording")}"'
        return b"\r\n".join([*parts, self._part("file", named, f"content-type: {kind}\r\n")])

    def _part(self, name: str, more: str = "", header: str = "") -> bytes:
        said = f'content-disposition: form-data; name="{_quoted(name)}"{more}\r\n{header}\r\n'
        return f"--{self._boundary}\r\n{said}".encode()

    def _tail(self) -> bytes:
        return f"\r\n--{self._boundary}--\r\n".encode()


def _quoted(text: str) -> str:
    """Return a text that ends neither its quotes nor its line, as browsers write it."""
    plain = text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    return "".join(sign for sign in plain if sign.isprintable())[:200]


class Uploads:
    """The recordings that are here now."""

    def __init__(self, bounds: Bounds = Bounds()) -> None:
        """Keep to these bounds."""
        self._bounds = bounds
        self._here = 0

    @asynccontextmanager
    async def receive(self, scope: Scope, receive: Receive) -> AsyncIterator[Upload]:
        """Read a whole recording; it is gone when the block ends, or this process does.

        Raises:
            Stop: it is no form with one recording, or too much of one, or there is no room.
        """
        bounds = self._bounds
        if self._here >= bounds.at_once:
            text = "too many recordings are here already; try again in a moment"
            raise Stop(429, text, "too_many_recordings", retry_after_s=5)
        headers = dict(scope["headers"])
        if int(_digits(headers.get(b"content-length", b""))) > bounds.audio_bytes:
            raise _too_large(bounds)
        self._here += 1
        try:
            with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES, dir=bounds.folder) as recording:
                form = Form(headers.get(b"content-type", b"").decode("latin-1"))
                await self._read(form, receive, recording)
                yield Upload(form, recording)
        except FormError as error:
            raise Stop(400, str(error), "invalid_form") from None
        finally:
            self._here -= 1

    async def _read(self, form: Form, receive: Receive, recording: IO[bytes]) -> None:
        try:
            async with asyncio.timeout(self._bounds.upload_s):
                await self._copy(form, receive, recording)
        except TimeoutError:
            text = f"the recording did not arrive within {self._bounds.upload_s:g} s"
            raise Stop(408, text, "upload_timeout") from None
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            text = "there is no room for the recording on the gateway's disk; free some"
            raise Stop(507, text, "disk_full") from None

    async def _copy(self, form: Form, receive: Receive, recording: IO[bytes]) -> None:
        came, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Stop(400, "the request was cut off", "cut_off")
            piece = message.get("body", b"")
            more = message.get("more_body", False)
            came += len(piece)
            if came > self._bounds.audio_bytes:
                raise _too_large(self._bounds)
            for part in form.feed(piece):
                # Other callers' words go on while a disk is slow.
                await asyncio.to_thread(recording.write, part)
        form.end()


def _digits(text: bytes) -> bytes:
    return text if text.isdigit() else b"0"


def _too_large(bounds: Bounds) -> Stop:
    size = bounds.audio_bytes // 1024**2
    return Stop(413, f"a recording has at most {size} MiB; cut or compress it", "too_large")
