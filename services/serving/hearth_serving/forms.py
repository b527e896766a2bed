"""Multipart forms with one file, parsed by Starlette while a bounded body arrives."""

import contextlib
import errno
import logging
import threading
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import IO

from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from hearth_serving.errors import ServiceError
from hearth_serving.limits import BoundedBody, Limits

# It logs the position of every error in a form; malformed input from clients is no news.
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)

FILE_FIELD = "file"
MAX_FIELDS = 64
MAX_FIELDS_BYTES = 64 * 1024
_RETRY_AFTER_S = 10


class UploadSpace:
    """The number of bytes that all forms together may hold; safe to use from several threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self.used_bytes = 0

    def reserve(self, count: int) -> None:
        """Reserve bytes before they are stored; raises ServiceError when there is no space."""
        with self._lock:
            if self.used_bytes + count > self._max_bytes:
                message = "too many large files are being processed; try again"
                raise ServiceError(message, status=503, code="busy", retry_after_s=_RETRY_AFTER_S)
            self.used_bytes += count

    def release(self, count: int) -> None:
        """Release bytes that are no longer stored."""
        with self._lock:
            self.used_bytes -= count


@dataclass(slots=True)
class Form:
    """The values of each field in their order, and the file; `close` it.

    A small file is in memory. A large one is on disk without a name, so that nothing of it outlives
    this process. Starlette puts it into the folder that `tempfile` names.
    """

    space: UploadSpace | None = None
    fields: dict[str, list[str]] = field(default_factory=dict)
    upload: UploadFile | None = None
    reserved_bytes: int = 0

    @property
    def file(self) -> IO[bytes]:
        """The uploaded file, at its first byte."""
        assert self.upload is not None  # noqa: S101 - callers check `upload` first
        return self.upload.file

    @property
    def size(self) -> int:
        """The size of the uploaded file in bytes; 0 without one."""
        return (self.upload.size or 0) if self.upload else 0

    def last(self, name: str) -> str | None:
        """Return the last value of a field, or None without one."""
        values = self.fields.get(name)
        return values[-1] if values else None

    def reserve(self, count: int) -> None:
        """Reserve space for bytes of the body; raises ServiceError when there is none."""
        if self.space:
            self.space.reserve(count)
            self.reserved_bytes += count

    def close(self) -> None:
        """Delete the file and release its space; closing twice is harmless."""
        if self.upload:
            # Buffered bytes need not reach the disk any more, nor can they on a full one.
            with contextlib.suppress(OSError):
                self.upload.file.close()
        if self.space:
            self.space.release(self.reserved_bytes)
        self.reserved_bytes = 0


async def read_form(request: Request, limits: Limits, space: UploadSpace | None = None) -> Form:
    """Read a form with at most one file, in its field `file`; the caller closes it.

    Raises ServiceError when the form is malformed, too large or too slow, or cannot be stored.
    """
    form = Form(space)
    body = BoundedBody(request, limits, form.reserve)
    try:
        await _parse(request.headers, body, form)
    except ServiceError:
        form.close()
        await body.drain()
        raise
    except BaseException:
        form.close()
        raise
    return form


async def _parse(headers: Headers, body: BoundedBody, form: Form) -> None:
    kind, options = parse_options_header(headers.get("content-type"))
    # Starlette accepts any codec of Python's: `undefined` raises, `punycode` takes quadratic time.
    if kind != b"multipart/form-data" or options.get(b"charset", b"utf-8").lower() != b"utf-8":
        raise _malformed("the content type is not multipart/form-data in UTF-8")
    try:
        items = await _Parser(headers, body).parse()
    except MultiPartException as error:
        raise _malformed(error.message.rstrip(".")) from None
    except OSError as error:
        raise _not_stored(error) from error
    for name, value in items.multi_items():
        if isinstance(value, str):
            form.fields.setdefault(name, []).append(value)
        else:
            form.upload = value
        if not name:
            raise _malformed("a part of the form has no name")
        if (name == FILE_FIELD) == isinstance(value, str):
            raise _malformed(f"a file goes into the field {FILE_FIELD} and has a filename")


class _Parser(MultiPartParser):
    """Starlette's parser, which alone accepts an unfinished form and bounds no sum of fields."""

    def __init__(self, headers: Headers, body: BoundedBody) -> None:
        super().__init__(
            headers,
            self._chunks(body),
            max_files=1,
            max_fields=MAX_FIELDS,
            max_part_size=MAX_FIELDS_BYTES,
        )
        self._finished = False
        self._fields_bytes = 0

    async def _chunks(self, body: BoundedBody) -> AsyncGenerator[bytes, None]:
        async for chunk in body:
            yield chunk
        # Raised here, while the parser still closes its files after an error.
        if not self._finished:
            raise _malformed("the form has no end")

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        """Count the bytes of all fields before one more is kept."""
        if self._current_part.file is None:
            self._fields_bytes += end - start
            if self._fields_bytes > MAX_FIELDS_BYTES:
                message = f"the fields of a form have at most {MAX_FIELDS_BYTES // 1024} KiB"
                raise ServiceError(message, status=413, code="request_too_large")
        super().on_part_data(data, start, end)

    def on_end(self) -> None:
        """Note that the closing boundary was read."""
        self._finished = True


def _malformed(reason: str) -> ServiceError:
    message = f"{reason}: send multipart/form-data with the recording as `{FILE_FIELD}`"
    return ServiceError(message, code="invalid_form")


def _not_stored(error: OSError) -> ServiceError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    reason = "the server's disk is full" if full else "the server cannot write temporary files"
    return ServiceError(f"{reason}: the upload was not stored", status=507, code="no_space")
