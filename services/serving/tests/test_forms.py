"""Forms arrive in chunks of any size, within their limits, and a large file has no name on disk."""

import asyncio
import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from hearth_serving.errors import ServiceError
from hearth_serving.forms import MAX_FIELDS, UploadSpace, read_form
from hearth_serving.limits import Limits

TYPE = "multipart/form-data; boundary=cut"
SERVING = Path(__file__).parents[1]
# Parts of it look like the end of the file.
FILE = bytes(range(256)) * 3 + b"\r\n--cu" + b"\r\n--cu\r\n" + b"\r\n"


def part(name: str, value: bytes, more: str = "", header: str = "") -> bytes:
    head = f'Content-Disposition: form-data; name="{name}"{more}\r\n{header}\r\n'
    return b"--cut\r\n" + head.encode() + value + b"\r\n"


def file_part(content: bytes = FILE, name: str = "file") -> bytes:
    return part(name, content, '; filename="a.wav"', "Content-Type: audio/wav\r\n")


def form_of(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--cut--\r\n"


def request(
    body: bytes, size: int = 100, content_type: str = TYPE, leaves: bool = False
) -> Request:
    """Return a request whose body arrives in chunks of this size."""

    def messages() -> Iterator[dict[str, Any]]:
        for start in range(0, len(body), size):
            yield {"type": "http.request", "body": body[start : start + size], "more_body": True}
        yield {"type": "http.disconnect"} if leaves else {"type": "http.request", "body": b""}

    chunks = messages()

    async def receive() -> dict[str, Any]:
        return next(chunks)

    return Request({"type": "http", "headers": [(b"content-type", content_type.encode())]}, receive)


async def rejected(given: Request, space: UploadSpace | None = None, **limits: Any) -> ServiceError:
    with pytest.raises(ServiceError) as error:
        await read_form(given, Limits(**limits), space)
    return error.value


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


BODY = form_of(
    part("model", b"transcribe"),
    part("granularities[]", b"word"),
    file_part(),
    part("prompt", "Grüße".encode()),
    part("granularities[]", b"segment"),
)


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
async def test_a_form_may_arrive_in_chunks_of_any_size(size: int) -> None:
    form = await read_form(request(BODY, size), Limits())
    assert form.fields == {
        "model": ["transcribe"],
        "granularities[]": ["word", "segment"],
        "prompt": ["Grüße"],
    }
    assert form.upload is not None
    assert (form.upload.filename, form.upload.content_type) == ("a.wav", "audio/wav")
    assert (form.file.read(), form.size, form.last("model")) == (FILE, len(FILE), "transcribe")
    form.close()
    form.close()


@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        ("application/json", b"{}", "is not multipart/form-data"),
        ("", BODY, "is not multipart/form-data"),
        ("multipart/form-data", BODY, "Missing boundary"),
        (f"multipart/form-data; boundary={'x' * 1000}", BODY, "Invalid multipart data"),
        *(
            (f"{TYPE}; charset={charset}", BODY, "in UTF-8")
            for charset in ("undefined", "punycode", "idna", "zip", "latin-1", "nothing")
        ),
        (TYPE, b"sound without a form", "Invalid multipart data"),
        (TYPE, BODY[:-6], "has no end"),
        (TYPE, BODY[:150], "has no end"),
        (TYPE, b"", "has no end"),
        (TYPE, form_of(file_part(), file_part()), "Too many files"),
        (TYPE, form_of(file_part(name="sound")), "goes into the field file"),
        (TYPE, form_of(part("file", b"sound")), "goes into the field file"),
        (TYPE, form_of(part("", b"m")), "has no name"),
        (TYPE, b"--cut\r\ncontent-disposition: form-data\r\n\r\nm\r\n--cut--", '"name" must be'),
        (TYPE, b"--cut\r\n" + b"a" * 10_000 + b": b\r\n\r\n", "Invalid multipart data"),
        (TYPE, b"--cut\r\n" + b"a: b\r\n" * 1000, "Invalid multipart data"),
        (TYPE, form_of(*[part("a", b"")] * (MAX_FIELDS + 1)), "number of fields is 64"),
    ],
)
async def test_a_malformed_form_is_rejected(content_type: str, body: bytes, message: str) -> None:
    error = await rejected(request(body, content_type=content_type))
    assert message in str(error)
    assert (error.status, error.code) == (400, "invalid_form")


@pytest.mark.parametrize(
    "body",
    [form_of(part("prompt", b"a" * 70_000)), form_of(*[part("a", b"a" * 9000)] * 9, file_part())],
)
async def test_all_fields_together_are_bounded(body: bytes) -> None:
    error = await rejected(request(body))
    assert "the fields of a form have at most 64 KiB" in str(error)
    assert (error.status, error.code) == (413, "request_too_large")


@pytest.mark.parametrize("body", [b"private words", form_of(part("prompt", b"private words"))[:-4]])
async def test_an_error_quotes_nothing_of_the_form(body: bytes) -> None:
    assert "private" not in str(await rejected(request(body)))


async def test_a_body_over_its_limit_is_not_stored(folder: Path) -> None:
    error = await rejected(request(BODY), body_bytes=500)
    assert (error.status, error.code) == (413, "request_too_large")
    assert os.listdir(folder) == []


async def test_a_disconnect_and_a_client_that_stops_sending() -> None:
    assert (await rejected(request(BODY[:900], leaves=True))).code == "cut_off"

    async def never() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    stopped = Request({"type": "http", "headers": [(b"content-type", TYPE.encode())]}, never)
    error = await rejected(stopped, body_s=0.01)
    assert (error.status, error.code) == (408, "request_timeout")


async def test_a_slow_client_is_accepted_above_the_minimum_rate() -> None:
    chunks = iter([BODY[at : at + 300] for at in range(0, len(BODY), 300)])

    async def slowly() -> dict[str, Any]:
        await asyncio.sleep(0.05)
        piece = next(chunks, b"")
        return {"type": "http.request", "body": piece, "more_body": bool(piece)}

    scope = {"type": "http", "headers": [(b"content-type", TYPE.encode())]}
    form = await read_form(Request(scope, slowly), Limits(body_s=0.08, min_bytes_per_s=100))
    assert form.size == len(FILE)
    form.close()


async def test_a_small_file_is_in_memory_and_a_large_one_has_no_name(folder: Path) -> None:
    for content, on_disk in ((b"a" * 1000, False), (b"a" * 3_000_000, True)):
        limits = Limits(body_bytes=4_000_000)
        form = await read_form(request(form_of(file_part(content)), 65_536), limits)
        assert (form.file._rolled, form.size) == (on_disk, len(content))  # type: ignore[attr-defined]
        assert form.file.read() == content
        assert os.listdir(folder) == []
        form.close()


async def test_all_forms_together_have_a_limit() -> None:
    space = UploadSpace(1500)
    body = form_of(file_part(bytes(700)))
    first = await read_form(request(body), Limits(), space)
    assert space.used_bytes == len(body)
    error = await rejected(request(body), space)
    assert (error.status, error.retry_after_s, space.used_bytes) == (503, 10, len(body))
    first.close()
    first.close()
    assert space.used_bytes == 0
    await rejected(request(body[:-6]), space)
    assert space.used_bytes == 0


# Bytes in a buffer reach the disk with the seek to the first byte.
@pytest.mark.parametrize("call", ["write", "seek"])
@pytest.mark.parametrize(
    ("number", "message"), [(errno.ENOSPC, "disk is full"), (errno.EROFS, "cannot write")]
)
async def test_a_disk_that_cannot_be_written_is_reported(
    monkeypatch: pytest.MonkeyPatch, call: str, number: int, message: str
) -> None:
    def refuse(*_: object, **__: object) -> bytes:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(f"tempfile.SpooledTemporaryFile.{call}", refuse)
    error = await rejected(request(BODY))
    assert message in str(error)
    assert error.status == 507


KILLED = """
import asyncio, os, signal, sys, tempfile
from starlette.requests import Request
from hearth_serving.forms import read_form
from hearth_serving.limits import Limits

async def receive():
    return {"type": "http.request", "body": sys.stdin.buffer.read()}

tempfile.tempdir = sys.argv[1]
scope = {"type": "http", "headers": [(b"content-type", sys.argv[2].encode())]}
form = asyncio.run(read_form(Request(scope, receive), Limits(body_bytes=4_000_000)))
assert form.file._rolled
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_is_left_of_a_process_that_was_killed(folder: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), TYPE],
        input=form_of(file_part(bytes(3_000_000))),
        env={"PYTHONPATH": str(SERVING)},
        timeout=60,
        check=False,
    )
    assert ended.returncode == -9
    assert os.listdir(folder) == []
