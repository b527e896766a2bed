"""Forms with a file in them, counted and put aside as they come."""

import asyncio
import logging
from collections import defaultdict
from dataclasses import dataclass, field

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from hearth_serving.errors import ServiceError
from hearth_whisper.audio.scratch import Scratch, Sheet
from hearth_whisper.web.settings import Limits

# It says of every broken form at which letter: strangers' garbage is no news.
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)

FILE = "file"
_MOST_FIELD_BYTES = 64 * 1024
_MOST_PARTS = 64
# A disk may make a write wait; so much is written at once, and in a thread.
_WRITTEN_BYTES = 256 * 1024
# A client hears why only after it has sent all; one that sends for ever does not.
_DRAINED = 2


@dataclass(slots=True)
class Form:
    """What was sent: each field's values in order, and the file."""

    sheet: Sheet
    fields: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    has_file: bool = False


async def read_form(request: Request, limits: Limits, scratch: Scratch) -> Form:
    """Read a form; whoever takes it closes its sheet. Raises ServiceError.

    It may be as large as `limits.body_bytes`, and after `limits.body_s` must have come at
    `limits.least_bytes_per_s` or faster.
    """
    form = Form(scratch.sheet())
    try:
        await _Reader(request, limits, form).read()
    except ClientDisconnect:
        form.sheet.close()
        raise ServiceError("the request was cut off", code="cut_off") from None
    except BaseException:
        form.sheet.close()
        raise
    return form


class _Reader:
    """One body on its way into a form."""

    def __init__(self, request: Request, limits: Limits, form: Form) -> None:
        self._request, self._limits, self._form = request, limits, form
        self._parts = 0
        self._header = bytearray()
        self._value = bytearray()
        self._disposition = b""
        self._name = ""
        self._text = bytearray()
        self._text_bytes = 0
        self._file = bytearray()
        self._ended = False

    async def read(self) -> None:
        """Read it all; what is wrong with it is told when all of it has come."""
        wrong: ServiceError | None = None
        parser: MultipartParser | None = None
        received = 0
        began = asyncio.get_running_loop().time()
        chunks = aiter(self._request.stream())
        while chunk := await self._next(chunks, began, received):
            received += len(chunk)
            if received > _DRAINED * self._limits.body_bytes:
                break
            if wrong is None:
                try:
                    parser = parser or self._parser()
                    await self._take(parser, chunk, received)
                except ServiceError as error:
                    wrong = error
                    self._form.sheet.close()
        if wrong or not self._ended:
            raise wrong or _no_form("the form has no end")
        await asyncio.to_thread(self._form.sheet.write, bytes(self._file))

    async def _next(self, chunks: object, began: float, received: int) -> bytes:
        """Return what came next, empty at the end; raises ServiceError when it is too slow."""
        allowed_s = self._limits.body_s + received / self._limits.least_bytes_per_s
        try:
            async with asyncio.timeout_at(began + allowed_s):
                while (chunk := await anext(chunks, None)) == b"":  # type: ignore[call-overload]
                    pass
        except TimeoutError:
            message = "the request did not arrive in time: its sender is too slow or has stopped"
            raise ServiceError(message, status=408, code="request_timeout") from None
        return chunk or b""

    async def _take(self, parser: MultipartParser, chunk: bytes, received: int) -> None:
        if received > self._limits.body_bytes:
            message = f"an upload has at most {self._limits.body_bytes // 1024**2} MiB"
            raise ServiceError(message, status=413, code="request_too_large")
        try:
            parser.write(chunk)
        except FormParserError:
            raise _no_form("the form is broken") from None
        if len(self._file) >= _WRITTEN_BYTES:
            block, self._file = bytes(self._file), bytearray()
            await asyncio.to_thread(self._form.sheet.write, block)

    def _parser(self) -> MultipartParser:
        kind, parameters = parse_options_header(self._request.headers.get("content-type"))
        boundary = parameters.get(b"boundary")
        if kind != b"multipart/form-data" or not boundary:
            raise _no_form("this is no form with a file")
        callbacks = {
            "on_part_begin": self._part_begins,
            "on_header_field": self._header_field,
            "on_header_value": self._header_value,
            "on_header_end": self._header_ends,
            "on_headers_finished": self._headers_end,
            "on_part_data": self._data,
            "on_part_end": self._part_ends,
            "on_end": self._ends,
        }
        try:
            return MultipartParser(boundary, callbacks)  # type: ignore[arg-type]
        except FormParserError:
            raise _no_form("the form's boundary is too long") from None

    def _part_begins(self) -> None:
        self._parts += 1
        self._disposition = b""
        self._text.clear()
        if self._parts > _MOST_PARTS:
            raise _no_form(f"the form has more than {_MOST_PARTS} parts")

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_ends(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _headers_end(self) -> None:
        _, parameters = parse_options_header(self._disposition)
        self._name = parameters.get(b"name", b"").decode("utf-8", "replace")
        if self._name == FILE:
            if self._form.has_file:
                raise _no_form("the form has two files; send one at a time")
            self._form.has_file = True

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._name == FILE:
            self._file += data[start:end]
            return
        self._text += data[start:end]
        self._text_bytes += end - start
        if self._text_bytes > _MOST_FIELD_BYTES:
            message = f"the fields of a form have at most {_MOST_FIELD_BYTES // 1024} KiB"
            raise ServiceError(message, status=413, code="request_too_large")

    def _part_ends(self) -> None:
        if self._name != FILE:
            self._form.fields[self._name].append(self._text.decode("utf-8", "replace"))

    def _ends(self) -> None:
        self._ended = True


def _no_form(why: str) -> ServiceError:
    message = f"{why}: send multipart/form-data, with the sound as its field file"
    return ServiceError(message, code="invalid_form")
