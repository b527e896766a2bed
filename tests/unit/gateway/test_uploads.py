"""A recording is bounded, written again for each server, and never whole in memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import UploadFile
from starlette.requests import Request

from hearth_gateway.litellm_call import Message, Receive
from hearth_gateway.uploads import Upload, UploadLimits, Uploads
from hearth_serving.errors import ServiceError

TYPE = "multipart/form-data; boundary=cut"
# Parts of it look like the end of the recording.
SOUND = bytes(range(256)) * 3 + b"\r\n--cu" + b"\r\n--cu\r\n" + b"\r\n"


def part(name: str, value: bytes, more: str = "", header: str = "") -> bytes:
    head = f'Content-Disposition: form-data; name="{name}"{more}\r\n{header}\r\n'
    return b"--cut\r\n" + head.encode() + value + b"\r\n"


def recording(
    sound: bytes = SOUND,
    more: str = '; filename="a.wav"',
    header: str = "Content-Type: audio/wav\r\n",
) -> bytes:
    return part("file", sound, more, header)


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--cut--\r\n"


def receiving(body: bytes, size: int, gone: bool = False) -> Receive:
    """Give the body in pieces of this size; the sender may leave before the end."""

    def pieces() -> Iterator[Message]:
        for start in range(0, len(body), size):
            yield {"type": "http.request", "body": body[start : start + size], "more_body": True}
        yield {"type": "http.disconnect"} if gone else {"type": "http.request", "body": b""}

    messages = pieces()

    async def receive() -> Message:
        return next(messages)

    return receive


def scope(**headers: str) -> dict[str, Any]:
    named = {"content-type": TYPE, **{k.replace("_", "-"): v for k, v in headers.items()}}
    return {
        "type": "http",
        "headers": [(name.encode(), value.encode()) for name, value in named.items()],
    }


async def sent_on(upload: Upload, model: str) -> tuple[dict[str, Any], bytes, dict[str, str]]:
    """Read what goes to a server as the server would: fields, whole body, headers."""
    body = b"".join([piece async for piece in upload.body(model)])
    headers = upload.headers(model)
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    request = Request({"type": "http", "headers": raw}, receiving(body, 1000))
    async with request.form() as read:
        fields: dict[str, Any] = {}
        for name, value in read.multi_items():
            if isinstance(value, UploadFile):
                fields[name] = (value.filename, value.content_type, await value.read())
            else:
                fields.setdefault(name, []).append(value)
    return fields, body, headers


BODY = form(
    part("model", b"transcribe"),
    part("language", b"de"),
    part("timestamp_granularities[]", b"word"),
    recording(),
    part("prompt", "Grüße".encode()),
    part("timestamp_granularities[]", b"segment"),
)


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
async def test_a_recording_is_forwarded_unchanged_except_for_the_model(size: int) -> None:
    uploads = Uploads()
    async with uploads.receive(scope(), receiving(BODY, size)) as upload:
        assert (upload.model, upload.streams) == ("transcribe", False)
        # Twice: a recording is sent again to the next member.
        for model in ("small", "tiny.en"):
            fields, body, headers = await sent_on(upload, model)
            assert fields == {
                "model": [model],
                "language": ["de"],
                "prompt": ["Grüße"],
                "timestamp_granularities[]": ["word", "segment"],
                "file": ("a.wav", "audio/wav", SOUND),
            }
            assert headers["content-length"] == str(len(body))


async def test_of_two_models_in_a_form_the_checked_one_is_sent() -> None:
    body = form(part("model", b"other"), part("model", b"hear"), recording())
    async with Uploads().receive(scope(), receiving(body, 50)) as upload:
        assert upload.model == "hear"
        fields, _, _ = await sent_on(upload, "m")
    assert fields["model"] == ["m"]


async def test_a_filename_cannot_end_its_quotes_or_its_line() -> None:
    name = '; filename="a\\"; name=\\"model.wav"'
    steers = "Content-Type: audio/wav; x=\\r\\nhost: there\r\n"
    body = form(part("model", b"m"), recording(b"sound", name, steers))
    async with Uploads().receive(scope(), receiving(body, 50)) as upload:
        fields, _, _ = await sent_on(upload, "m")
    assert fields["model"] == ["m"]
    assert fields["file"] == ("a%22; name=%22model.wav", "application/octet-stream", b"sound")


@pytest.mark.parametrize(("value", "streams"), [("true", True), ("1", True), ("false", False)])
async def test_the_field_stream_requests_a_stream(value: str, streams: bool) -> None:
    body = form(part("stream", value.encode()), recording())
    async with Uploads().receive(scope(), receiving(body, 50)) as upload:
        assert upload.streams is streams
        assert upload.model is None


@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        ("application/json", b"{}", r"send multipart/form-data"),
        (TYPE, BODY[:-6], "has no end"),
        (TYPE, form(part("model", b"m")), "has no recording"),
        (TYPE, form(recording(), recording()), "Too many files"),
    ],
)
async def test_a_form_without_exactly_one_recording_is_rejected(
    content_type: str, body: bytes, message: str
) -> None:
    with pytest.raises(ServiceError, match=message) as error:
        async with Uploads().receive(scope(content_type=content_type), receiving(body, 100)):
            pytest.fail("it was read")
    assert (error.value.status, error.value.code) == (400, "invalid_form")


async def test_a_disconnect_and_an_upload_above_the_limit() -> None:
    uploads = Uploads(UploadLimits(audio_bytes=1000))
    for requested, receive, status in (
        (scope(), receiving(BODY, 100, gone=True), 413),
        (scope(), receiving(BODY[:900], 100, gone=True), 400),
        # Nothing of it is read.
        (scope(content_length="1001"), receiving(b"", 1), 413),
    ):
        with pytest.raises(ServiceError) as error:
            async with uploads.receive(requested, receive):
                pytest.fail("it was read")
        assert error.value.status == status


async def test_the_number_of_recordings_is_bounded() -> None:
    uploads = Uploads(UploadLimits(max_uploads=1))
    async with uploads.receive(scope(), receiving(BODY, 100)):
        rejected = receiving(BODY, 100)
        with pytest.raises(ServiceError, match="too many recordings") as error:
            async with uploads.receive(scope(), rejected):
                pytest.fail("it was read")
        assert (error.value.status, error.value.retry_after_s) == (429, 5)
        # All of it was read and dropped, so a client that is still sending gets the response.
        with pytest.raises(RuntimeError, match="StopIteration"):
            await rejected()
    # Its place is free again, however the one before ended.
    with pytest.raises(ServiceError):
        async with uploads.receive(scope(), receiving(b"", 1)):
            pytest.fail("it was read")
    async with uploads.receive(scope(), receiving(BODY, 100)):
        pass


async def test_a_large_recording_is_on_disk_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sound = b"s" * 3_000_000
    body = form(part("model", b"m"), recording(sound))
    async with Uploads().receive(scope(), receiving(body, 65536)) as up:
        assert os.listdir(tmp_path) == []
        blocks = [piece async for piece in up.body("m")]
    assert max(map(len, blocks)) <= 256 * 1024
    assert sum(block.count(b"s") for block in blocks) >= len(sound)
