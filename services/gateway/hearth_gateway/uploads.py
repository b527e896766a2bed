"""One recording: read once into an unnamed file, and sent as often as needed.

A recording is never in memory as a whole. The request to a server is rebuilt from the fields
that were checked here, so the server reads the same fields.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.requests import Request

from hearth_gateway.litellm_call import Receive, Scope
from hearth_serving.errors import ServiceError
from hearth_serving.forms import FILE_FIELD, Form, read_form
from hearth_serving.limits import BoundedBody, Limits

# Eight hours of ordinary speech in a modern codec, more than two hours as an uncompressed WAV file.
AUDIO_BYTES = 256 * 1024 * 1024
# The reverse proxy sends what it has at once; a client with one byte a second must not stay.
UPLOAD_S = 600.0
# Together with AUDIO_BYTES this bounds the disk space of all recordings.
MAX_UPLOADS = 16
_BLOCK_BYTES = 256 * 1024
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+")


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """Bounds of one recording, and how many of them there may be at once."""

    audio_bytes: int = AUDIO_BYTES
    upload_s: float = UPLOAD_S
    max_uploads: int = MAX_UPLOADS


@dataclass(frozen=True, slots=True)
class Upload:
    """A whole recording and the fields around it."""

    form: Form
    _boundary: str = field(default_factory=lambda: f"hearth-{secrets.token_hex(16)}")

    @property
    def model(self) -> str | None:
        """The requested model."""
        return self.form.last("model")

    @property
    def streams(self) -> bool:
        """Whether the text is requested as a stream."""
        return (self.form.last("stream") or "").lower() in ("true", "1", "on")

    @property
    def plain(self) -> bool:
        """Whether the requested format is text or subtitles, not JSON."""
        return self.form.last("response_format") in ("text", "srt", "vtt")

    def headers(self, model: str) -> dict[str, str]:
        """Return the headers of a request for the model `model` of a server."""
        length = len(self._head(model)) + self.form.size + len(self._tail())
        content_type = f"multipart/form-data; boundary={self._boundary}"
        return {"content-type": content_type, "content-length": str(length)}

    async def body(self, model: str) -> AsyncIterator[bytes]:
        """Yield the body of a request for the model `model` of a server."""
        yield self._head(model)
        # Other requests continue while a disk is slow.
        await asyncio.to_thread(self.form.file.seek, 0)
        while block := await asyncio.to_thread(self.form.file.read, _BLOCK_BYTES):
            yield block
        yield self._tail()

    def _head(self, model: str) -> bytes:
        fields = {**self.form.fields, "model": [model]}
        parts = [self._part(name) + each.encode() for name in fields for each in fields[name]]
        upload = self.form.upload
        media_type = (upload and upload.content_type) or ""
        if not _MEDIA_TYPE.fullmatch(media_type):
            media_type = "application/octet-stream"
        filename = _quoted((upload and upload.filename) or "recording")
        header = f"content-type: {media_type}\r\n"
        return b"\r\n".join([*parts, self._part(FILE_FIELD, f'; filename="{filename}"', header)])

    def _part(self, name: str, more: str = "", header: str = "") -> bytes:
        disposition = f'content-disposition: form-data; name="{_quoted(name)}"{more}'
        return f"--{self._boundary}\r\n{disposition}\r\n{header}\r\n".encode()

    def _tail(self) -> bytes:
        return f"\r\n--{self._boundary}--\r\n".encode()


def _quoted(text: str) -> str:
    """Return a text that cannot end its quotes or its line, escaped as browsers do."""
    escaped = text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    return "".join(each for each in escaped if each.isprintable())[:200]


class Uploads:
    """The recordings that are held now."""

    def __init__(self, limits: UploadLimits = UploadLimits()) -> None:
        self._limits = limits
        self._held = 0

    @asynccontextmanager
    async def receive(self, scope: Scope, receive: Receive) -> AsyncIterator[Upload]:
        """Read a whole recording; it is deleted when the block or this process ends.

        Raises:
            ServiceError: the form is malformed, slow or too large, or there is no space.
        """
        limits = Limits(body_bytes=self._limits.audio_bytes, body_s=self._limits.upload_s)
        request = Request(dict(scope), receive)
        if self._held >= self._limits.max_uploads:
            # Many clients read a response only after they have sent all.
            await BoundedBody(request, limits).drain()
            message = "too many recordings are being processed; try again in a moment"
            code = "too_many_recordings"
            raise ServiceError(message, status=429, code=code, retry_after_s=5)
        if _length(request) > limits.body_bytes:
            message = f"a request has at most {limits.body_bytes / 1024**2:g} MiB"
            raise ServiceError(message, status=413, code="request_too_large")
        self._held += 1
        try:
            form = await read_form(request, limits)
            try:
                if not form.upload:
                    message = f"the form has no recording; send it as `{FILE_FIELD}`"
                    raise ServiceError(message, code="invalid_form")
                yield Upload(form)
            finally:
                form.close()
        finally:
            self._held -= 1


def _length(request: Request) -> int:
    length = request.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else 0
