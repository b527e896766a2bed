"""How a recording is read, bounded, and written anew: in any pieces, and never whole in memory."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import UploadFile
from starlette.requests import Request

from hearth_gateway.call import Message, Receive
from hearth_gateway.form import FIELDS, Form, FormError
from hearth_gateway.request import Stop
from hearth_gateway.upload import Bounds, Upload, Uploads

TYPE = "multipart/form-data; boundary=cut"
# What looks like an end of the recording and is none.
SOUND = bytes(range(256)) * 3 + b"\r\n--cu" + b"\r\n--cu\r\n" + b"\r\n"


def part(name: str, value: bytes, more: str = "", header: str = "") -> bytes:
    said = f'Content-Disposition: form-data; name="{name}"{more}\r\n{header}\r\n'
    return b"--cut\r\n" + said.encode() + value + b"\r\n"


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
    return {"headers": [(name.encode(), value.encode()) for name, value in named.items()]}


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
async def test_what_comes_in_any_pieces_goes_on_as_it_was_but_for_the_model(
    size: int, tmp_path: Path
) -> None:
    uploads = Uploads(Bounds(folder=str(tmp_path)))
    async with uploads.receive(scope(), receiving(BODY, size)) as upload:
        assert (upload.model, upload.streams) == ("transcribe", False)
        # Once more for the next member: a recording is sent as often as need be.
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


async def test_a_name_neither_ends_its_quotes_nor_its_line(tmp_path: Path) -> None:
    name = '; filename="a\\"; name=\\"model.wav"'
    steers = "Content-Type: audio/wav; x=\\r\\nhost: there\r\n"
    body = form(part("model", b"m"), recording(b"sound", name, steers))
    async with Uploads(Bounds(folder=str(tmp_path))).receive(
        scope(), receiving(body, 50)
    ) as upload:
        fields, _, _ = await sent_on(upload, "m")
    assert fields["model"] == ["m"]
    assert fields["file"] == ("a%22; name=%22model.wav", "application/octet-stream", b"sound")


@pytest.mark.parametrize(("said", "streams"), [("true", True), ("1", True), ("false", False)])
async def test_who_wants_a_stream_says_so(said: str, streams: bool, tmp_path: Path) -> None:
    body = form(part("stream", said.encode()), recording())
    async with Uploads(Bounds(folder=str(tmp_path))).receive(
        scope(), receiving(body, 50)
    ) as upload:
        assert upload.streams is streams
        assert upload.model is None


@pytest.mark.parametrize(
    ("content_type", "body", "says"),
    [
        ("application/json", b"{}", r"send a form \(multipart/form-data\)"),
        ("multipart/form-data", BODY, r"send a form \(multipart/form-data\)"),
        (f"multipart/form-data; boundary={'x' * 1000}", BODY, "a shorter one"),
        (TYPE, b"sound and no form", "the form is broken"),
        (TYPE, BODY[:-6], "ends in the middle"),
        (TYPE, b"", "ends in the middle"),
        (TYPE, form(part("model", b"m")), "has no recording"),
        (TYPE, form(recording(), recording()), "more than one recording"),
        (TYPE, form(part("", b"m")), "has no name"),
        (TYPE, form(*[part("a", b"")] * (FIELDS + 1)), "more than 64 fields"),
        (TYPE, form(part("prompt", b"a" * 70_000)), "fields are too long"),
        (TYPE, form(*[part("a", b"a" * 9000)] * 9), "fields are too long"),
    ],
)
async def test_what_is_no_form_with_one_recording_is_refused(
    content_type: str, body: bytes, says: str, tmp_path: Path
) -> None:
    uploads = Uploads(Bounds(folder=str(tmp_path)))
    with pytest.raises(Stop, match=says) as stop:
        async with uploads.receive(scope(content_type=content_type), receiving(body, 100)):
            pytest.fail("it was read")
    assert stop.value.status == 400


async def test_a_sender_who_leaves_and_one_who_sends_too_much(tmp_path: Path) -> None:
    uploads = Uploads(Bounds(audio_bytes=1000, folder=str(tmp_path)))
    for asked, receive, status in (
        (scope(), receiving(BODY, 100, gone=True), 413),
        (scope(), receiving(BODY[:900], 100, gone=True), 400),
        # Nothing of it is read.
        (scope(content_length="1001"), receiving(b"", 1), 413),
    ):
        with pytest.raises(Stop) as stop:
            async with uploads.receive(asked, receive):
                pytest.fail("it was read")
        assert stop.value.status == status


async def test_one_who_sends_nothing_does_not_stay(tmp_path: Path) -> None:
    async def never() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    uploads = Uploads(Bounds(upload_s=0.01, folder=str(tmp_path)))
    with pytest.raises(Stop, match=r"within 0\.01 s") as stop:
        async with uploads.receive(scope(), never):
            pytest.fail("it was read")
    assert stop.value.status == 408


async def test_no_more_recordings_than_there_is_room_for(tmp_path: Path) -> None:
    uploads = Uploads(Bounds(at_once=1, folder=str(tmp_path)))
    async with uploads.receive(scope(), receiving(BODY, 100)):
        with pytest.raises(Stop, match="too many recordings") as stop:
            async with uploads.receive(scope(), receiving(BODY, 100)):
                pytest.fail("it was read")
        assert (stop.value.status, stop.value.retry_after_s) == (429, 5)
    # Its place is free again, however the one before ended.
    with pytest.raises(Stop):
        async with uploads.receive(scope(), receiving(b"", 1)):
            pytest.fail("it was read")
    async with uploads.receive(scope(), receiving(BODY, 100)):
        pass


async def test_a_large_recording_lies_on_the_disk_without_a_name(tmp_path: Path) -> None:
    sound = b"s" * 3_000_000
    body = form(part("model", b"m"), recording(sound))
    async with Uploads(Bounds(folder=str(tmp_path))).receive(scope(), receiving(body, 65536)) as up:
        assert os.listdir(tmp_path) == []
        blocks = [piece async for piece in up.body("m")]
    assert max(map(len, blocks)) <= 256 * 1024
    assert sum(block.count(b"s") for block in blocks) >= len(sound)


async def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> bytes:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.SpooledTemporaryFile.write", full)
    with pytest.raises(Stop, match="no room for the recording") as stop:
        async with Uploads(Bounds(folder=str(tmp_path))).receive(scope(), receiving(BODY, 100)):
            pytest.fail("it was read")
    assert stop.value.status == 507


@pytest.mark.parametrize("body", [b"said in private", form(part("prompt", b"said in private"))])
def test_a_form_says_what_it_lacks_and_not_what_it_holds(body: bytes) -> None:
    def whole() -> None:
        read = Form(TYPE)
        list(read.feed(body))
        read.end()

    with pytest.raises(FormError) as error:
        whole()
    assert "private" not in str(error.value)
