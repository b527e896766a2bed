"""The form in which a recording is sent, read piece by piece."""

from __future__ import annotations

from collections.abc import Iterator

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

# A prompt is 224 tokens; everything but the recording is a few words.
FIELDS = 64
FIELDS_BYTES = 64 * 1024
RECORDING = "file"


class FormError(ValueError):
    """What was sent is no form with one recording; the text says what to send instead."""


class Form:
    """Takes a body piece by piece; keeps its fields and gives the recording away."""

    def __init__(self, content_type: str) -> None:
        """Read a body of this type; FormError for any but a form's."""
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary")
        if kind != b"multipart/form-data" or not boundary:
            raise FormError("send a form (multipart/form-data) with the recording as `file`")
        self.fields: list[tuple[str, bytes]] = []
        self.filename = ""
        self.content_type = ""
        self.size = 0
        self._recordings = 0
        self._ended = False
        self._headers: dict[bytes, bytes] = {}
        self._name = b""
        self._value = b""
        self._part: bytearray | None = None
        self._sound: list[bytes] = []
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._on_part_begin,
                    "on_header_field": self._on_header_field,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers_finished,
                    "on_part_data": self._on_part_data,
                    "on_part_end": self._on_part_end,
                    "on_end": self._on_end,
                },
            )
        except FormParserError:
            raise FormError(
                "the form's boundary cannot be used; send it with a shorter one"
            ) from None

    def values(self, name: str) -> list[bytes]:
        """Return what stands in the fields of this name."""
        return [value for field, value in self.fields if field == name]

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Take a piece of the body, and yield what it has of the recording."""
        try:
            self._parser.write(piece)
        except FormParserError:
            raise FormError("the form is broken; send it as multipart/form-data") from None
        sound, self._sound = self._sound, []
        self.size += sum(map(len, sound))
        yield from sound

    def end(self) -> None:
        """Say that there is no more; FormError when something is missing."""
        if not self._ended:
            raise FormError("the form ends in the middle; send all of it")
        if not self._recordings:
            raise FormError("the form has no recording; send it as `file`")

    def _on_part_begin(self) -> None:
        self._headers = {}

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[self._name.lower()] = self._value
        self._name = self._value = b""

    def _on_headers_finished(self) -> None:
        _, said = parse_options_header(self._headers.get(b"content-disposition"))
        name = said.get(b"name", b"").decode(errors="replace")
        if not name:
            raise FormError("a part of the form has no name; name the recording `file`")
        if name == RECORDING:
            self._recordings += 1
            if self._recordings > 1:
                raise FormError("the form has more than one recording; send them one by one")
            self.filename = said.get(b"filename", b"").decode(errors="replace")
            self.content_type = self._headers.get(b"content-type", b"").decode("latin-1")
            self._part = None
            return
        if len(self.fields) == FIELDS:
            raise FormError(f"the form has more than {FIELDS} fields; leave some out")
        self._part = bytearray()
        self.fields.append((name, b""))

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._part is None:
            self._sound.append(data[start:end])
            return
        self._part += data[start:end]
        if len(self._part) + sum(len(value) for _, value in self.fields) > FIELDS_BYTES:
            raise FormError("the form's fields are too long; only `file` may be large")

    def _on_part_end(self) -> None:
        if self._part is not None:
            self.fields[-1] = (self.fields[-1][0], bytes(self._part))

    def _on_end(self) -> None:
        self._ended = True
