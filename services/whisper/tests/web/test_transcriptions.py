"""`POST /v1/audio/transcriptions` and `/translations`, over a socket."""

import asyncio
import json
from typing import Any

import httpx
import numpy as np
import pytest

from hearth_serving.errors import EngineError, ServiceError

from ..audio.sounds import encoded, png, tone, wav
from .conftest import SECOND, OpenServer, RunningServer, ScriptedScheduler, busy

FIVE_S = wav(tone(5.0).tobytes())
TEXT = "Good morning, the kettle is on. Good morning, the kettle"


def error_of(response: httpx.Response, status: int = 400) -> dict[str, Any]:
    """Return the error of a response, checked for OpenAI's shape."""
    assert response.status_code == status, response.text
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert "\n" not in error["message"]
    return error


async def test_json(server: RunningServer) -> None:
    response = await server.transcribe(FIVE_S)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {"text": TEXT, "usage": {"type": "duration", "seconds": 5}}
    assert server.scheduler.open_texts == 0
    samples = np.concatenate(server.scheduler.blocks)
    assert np.array_equal(samples, tone(5.0).astype(np.float32) / 32768)


async def test_text(server: RunningServer) -> None:
    response = await server.transcribe(FIVE_S, response_format="text")
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.text == TEXT + "\n"


async def test_subtitles(server: RunningServer) -> None:
    srt = await server.transcribe(FIVE_S, response_format="srt")
    assert srt.headers["content-type"].startswith("application/x-subrip")
    assert srt.text.split("\n\n")[1] == "2\n00:00:02,000 --> 00:00:04,000\nis on. Good morning,"
    vtt = await server.transcribe(FIVE_S, response_format="vtt")
    assert vtt.headers["content-type"].startswith("text/vtt")
    assert vtt.text.split("\n\n")[:2] == [
        "WEBVTT",
        "00:00:00.000 --> 00:00:02.000\nGood morning, the kettle",
    ]


async def test_verbose_json_with_segments(server: RunningServer) -> None:
    response = (await server.transcribe(FIVE_S, response_format="verbose_json")).json()
    assert (response["task"], response["language"]) == ("transcribe", "english")
    assert (response["duration"], response["text"]) == (5.0, TEXT)
    assert [segment["id"] for segment in response["segments"]] == [0, 1, 2]
    assert response["segments"][1] == {
        "id": 1, "seek": 200, "start": 2.0, "end": 4.0, "text": " is on. Good morning,",
        "tokens": [7, 8], "temperature": 0.0, "avg_logprob": -0.3, "compression_ratio": 1.0,
        "no_speech_prob": 0.0,
    }  # fmt: skip
    assert "words" not in response
    assert not server.scheduler.calls[0].word_timestamps


@pytest.mark.parametrize("both", [False, True])
async def test_verbose_json_with_words(server: RunningServer, both: bool) -> None:
    granularities = ["word", "segment"] if both else ["word"]
    fields = {"timestamp_granularities[]": granularities}
    response = (await server.transcribe(SECOND, fields, response_format="verbose_json")).json()
    assert response["words"] == [
        {"word": "Good", "start": 0.0, "end": 0.5},
        {"word": "morning,", "start": 0.5, "end": 1.0},
    ]
    assert ("segments" in response) is both
    assert server.scheduler.calls[0].word_timestamps


async def test_events_are_sent_as_segments_are_decoded(server: RunningServer) -> None:
    server.scheduler.gate.clear()
    files = {"file": ("speech.wav", FIVE_S)}
    sent: list[dict[str, Any]] = []
    asking = server.client.build_request(
        "POST", "/v1/audio/transcriptions", files=files, data={"stream": "true"}
    )
    opening = asyncio.create_task(server.client.send(asking, stream=True))
    await server.until(lambda: bool(server.scheduler.blocks))
    server.scheduler.gate.set()
    response = await opening
    assert response.headers["content-type"].startswith("text/event-stream")
    async for line in response.aiter_lines():
        if line:
            sent.append(json.loads(line.removeprefix("data: ")))
            server.scheduler.gate.clear()
            # The next segment does not start before the last one could be read.
            assert len(server.scheduler.texts) <= len(sent) + 1
            server.scheduler.gate.set()
    await response.aclose()
    assert [event["type"] for event in sent] == ["transcript.text.delta"] * 3 + [
        "transcript.text.done"
    ]
    assert "".join(event.get("delta", "") for event in sent) == sent[-1]["text"] == TEXT


def events_of(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.headers["content-type"].startswith("text/event-stream")
    return [json.loads(line.removeprefix("data: ")) for line in response.text.splitlines() if line]


async def test_events_with_times(server: RunningServer) -> None:
    response = await server.transcribe(FIVE_S, stream="true", response_format="verbose_json")
    *events, done = events_of(response)
    assert done == {"type": "transcript.text.done", "text": TEXT}
    # Each segment's text and times come together.
    kinds = [event["type"].removeprefix("transcript.text.") for event in events]
    assert kinds == ["delta", "segment"] * 3
    assert events[3] == {
        "type": "transcript.text.segment", "id": "1", "start": 2.0, "end": 4.0,
        "text": " is on. Good morning,",
    }  # fmt: skip
    assert [event["id"] for event in events[1::2]] == ["0", "1", "2"]
    assert "".join(event["delta"] for event in events[::2]) == TEXT


async def test_fields_reach_the_model(server: RunningServer) -> None:
    await server.transcribe(language="German", prompt="Kessel", temperature="0.4")
    options = server.scheduler.calls[0]
    assert (options.language, options.prompt, options.temperature) == ("de", "Kessel", 0.4)
    assert not options.translate
    await server.transcribe(language="", prompt=" ", temperature="0")
    options = server.scheduler.calls[1]
    assert (options.language, options.prompt, options.temperature) == (None, "", None)


async def test_translations(server: RunningServer) -> None:
    response = await server.transcribe(task="translations", response_format="verbose_json")
    assert response.json()["task"] == "translate"
    assert server.scheduler.calls[0].translate


async def test_an_english_model_does_not_translate(open_server: OpenServer) -> None:
    async with open_server(ScriptedScheduler(multilingual=False)) as server:
        error = error_of(await server.transcribe(task="translations"))
    assert error["code"] == "not_multilingual"


@pytest.mark.parametrize("model", ["whisper-1", "tiny.en", ""])
async def test_the_models_names(server: RunningServer, model: str) -> None:
    assert (await server.transcribe(model=model)).status_code == 200


async def test_a_model_that_was_not_selected_is_answered_by_the_selected_one(
    server: RunningServer,
) -> None:
    response = await server.transcribe(model="small")
    assert (response.status_code, response.headers["x-hearth-model"]) == (200, "tiny.en")


async def test_the_error_for_an_unknown_model_names_the_models(server: RunningServer) -> None:
    error = error_of(await server.transcribe(model="gpt-4o-transcribe"), 404)
    assert (error["param"], error["code"]) == ("model", "model_not_found")
    assert "tiny.en or whisper-1" in error["message"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": "diarized_json"}, "response_format"),
        ({"temperature": "1.5"}, "temperature"),
        ({"temperature": "nan"}, "temperature"),
        ({"temperature": "warm"}, "temperature"),
        ({"language": "klingon"}, "language"),
        ({"timestamp_granularities[]": "letter"}, "timestamp_granularities"),
        ({"stream": "perhaps"}, "stream"),
        ({"stream": "true", "response_format": "srt"}, "stream"),
        (
            {
                "stream": "true",
                "response_format": "verbose_json",
                "timestamp_granularities[]": "word",
            },
            "stream",
        ),
    ],
)
async def test_an_invalid_field_is_named(
    server: RunningServer, fields: dict[str, str], param: str
) -> None:
    assert error_of(await server.transcribe(SECOND, fields))["param"] == param
    assert not server.scheduler.calls


async def test_fields_of_other_servers_are_ignored(server: RunningServer) -> None:
    fields = {"vad_filter": "true", "user": "somebody", "include[]": "logprobs"}
    response = await server.transcribe(SECOND, fields)
    assert response.status_code == 200


SILENCE = wav(bytes(16_000 * 2 * 3))


@pytest.mark.parametrize(
    "file",
    [SILENCE, wav(b""), encoded("webm", "libopus", tone(0.02, 48_000), 48_000)],
    ids=["silence", "nothing", "an instant"],
)
@pytest.mark.parametrize("form", ["json", "text", "srt", "vtt", "verbose_json"])
async def test_audio_without_speech_has_an_empty_text(
    server: RunningServer, file: bytes, form: str
) -> None:
    response = await server.transcribe(file, response_format=form)
    assert response.status_code == 200, response.text
    if file == SILENCE or file == wav(b""):
        wanted = {"json": "", "text": "\n", "srt": "", "vtt": "WEBVTT\n", "verbose_json": ""}
        got = response.json()["text"] if form.endswith("json") else response.text
        assert got == wanted[form]


@pytest.mark.parametrize(
    ("file", "code"),
    [
        (b"", "empty_file"),
        (png(), "no_audio"),
        (b"RIFF....WAVE", "unreadable_audio"),
        (b"hello " * 10_000, "unreadable_audio"),
        (encoded("mov", "aac", tone(3.0, 48_000), 48_000)[:9000], "unreadable_audio"),
        (None, "missing_required_parameter"),
    ],
    ids=["empty", "picture", "head", "letter", "cut", "none"],
)
@pytest.mark.parametrize("stream", ["true", "false"])
async def test_files_without_audio(
    server: RunningServer, file: bytes | None, code: str, stream: str
) -> None:
    error = error_of(await server.transcribe(file, stream=stream))
    assert (error["param"], error["code"]) == ("file", code)
    assert server.scheduler.open_texts == 0


async def test_audio_that_is_too_long(open_server: OpenServer) -> None:
    async with open_server(audio_s=4) as server:
        assert (
            error_of(await server.transcribe(wav(tone(70.0).tobytes())))["code"] == "audio_too_long"
        )
        # The header states no length; the limit is found while decoding.
        lying = bytearray(wav(tone(30.0).tobytes()))
        lying[40:44] = bytes(4)
        response = await server.transcribe(
            bytes(encoded("adts", "aac", tone(30.0, 48_000), 48_000))
        )
        assert error_of(response)["code"] == "audio_too_long"


async def test_an_upload_over_its_limit(open_server: OpenServer) -> None:
    async with open_server(body_bytes=1_000_000) as server:
        for size in (1_000_000, 1_900_000, 5_000_000):
            assert (
                error_of(await server.transcribe(bytes(size)), 413)["code"] == "request_too_large"
            )
        # The stored parts are deleted, and the next upload works.
        assert (await server.transcribe(wav(bytes(900_000)))).status_code == 200


async def test_fields_over_their_limit(server: RunningServer) -> None:
    for fields in ({"prompt": "x" * 70_000}, {f"field{n}": "x" * 3_000 for n in range(30)}):
        error = error_of(await server.transcribe(SECOND, fields), 413)
        assert "fields" in error["message"]
    error = error_of(await server.transcribe(SECOND, {f"field{n}": "x" for n in range(70)}))
    assert "Maximum number of fields is 64" in error["message"]


async def test_all_uploads_together_have_a_limit(open_server: OpenServer) -> None:
    async with open_server(scratch_bytes=3_000_000) as server:
        server.scheduler.gate.clear()
        first = asyncio.create_task(server.transcribe(wav(bytes(2_000_000))))
        await server.until(lambda: bool(server.scheduler.blocks))
        response = await server.transcribe(wav(bytes(2_000_000)))
        assert error_of(response, 503)["type"] == "service_unavailable_error"
        assert int(response.headers["retry-after"]) > 0
        server.scheduler.gate.set()
        assert (await first).status_code == 200


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"{}"),
        ("multipart/form-data", b"--x--"),
        ("multipart/form-data; boundary=x", b"nothing of it"),
        ("multipart/form-data; boundary=x", b'--x\r\ncontent-disposition: form-data; name="file"'),
        ("multipart/form-data; boundary=" + "x" * 300, b""),
        ("multipart/form-data; boundary=x", b"--x\r\n" + b"a" * 10_000 + b": b\r\n\r\n"),
        ("multipart/form-data; boundary=x", b'--x\r\nc: form-data; name="a"\r\n\r\n1\r\n' * 70),
        ("", b""),
    ],
)
async def test_an_invalid_form(server: RunningServer, kind: str, body: bytes) -> None:
    response = await server.client.post(
        "/v1/audio/transcriptions", content=body, headers={"content-type": kind}
    )
    error = error_of(response)
    assert error["code"] == "invalid_form"
    assert "multipart/form-data" in error["message"]


async def test_two_files_are_rejected(server: RunningServer) -> None:
    files = [("file", ("a.wav", SECOND)), ("file", ("b.wav", SECOND))]
    response = await server.client.post("/v1/audio/transcriptions", files=files)
    assert error_of(response)["code"] == "invalid_form"


async def test_a_large_upload_is_complete_in_chunks_of_any_size(server: RunningServer) -> None:
    pcm = np.random.default_rng(3).integers(-9000, 9000, 16_000 * 60).astype(np.int16)
    # Line ends and boundaries in the data make the parser's work hard.
    pcm[5000:9000] = np.frombuffer(b"\r\n--x--\r" * 1000, np.int16)
    body = (
        b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
        + wav(pcm.tobytes())
        + b"\r\n--xyz--\r\n"
    )

    async def pieces() -> Any:
        at, size = 0, 1
        while at < len(body):
            yield body[at : at + size]
            at, size = at + size, size * 3 % 60_000 + 1

    response = await server.client.post(
        "/v1/audio/transcriptions",
        content=pieces(),
        headers={"content-type": "multipart/form-data; boundary=xyz"},
    )
    assert response.status_code == 200, response.text
    samples = np.concatenate(server.scheduler.blocks)
    assert np.array_equal(samples, pcm.astype(np.float32) / 32768)


async def test_a_slow_upload_is_rejected(open_server: OpenServer) -> None:
    async with open_server(body_s=0.3, min_bytes_per_s=1e6) as server:
        reader, writer = await begin(server, bytes(600_000), length=900_000)
        for _ in range(200):
            writer.write(b"x")
            await asyncio.sleep(0.02)
            if reader._buffer:  # type: ignore[attr-defined]
                break
        assert b"408" in await asyncio.wait_for(reader.readline(), 3)
        writer.close()


async def test_a_fast_upload_may_take_longer(open_server: OpenServer) -> None:
    async with open_server(body_s=1.5, min_bytes_per_s=5_000) as server:

        async def pieces() -> Any:
            yield form_of(b"")[:-11]
            for at in range(0, len(SECOND), 2000):
                yield SECOND[at : at + 2000]
                await asyncio.sleep(0.1)
            yield b"\r\n--xyz--\r\n"

        response = await server.client.post(
            "/v1/audio/transcriptions",
            content=pieces(),
            headers={"content-type": "multipart/form-data; boundary=xyz"},
        )
        assert response.status_code == 200, response.text


async def test_a_client_that_disconnects_during_its_upload(server: RunningServer) -> None:
    _, writer = await begin(server, bytes(600_000), length=900_000)
    await server.until(lambda: server.state.uploads.used_bytes > 0)
    writer.close()
    await server.until(lambda: server.state.metrics.describe()["requests"]["refused"] == 1)  # type: ignore[index]
    assert server.state.uploads.used_bytes == 0


@pytest.mark.parametrize("fields", [b"", b"stream"])
async def test_a_client_that_disconnects_cancels_its_work(
    server: RunningServer, fields: bytes
) -> None:
    server.scheduler.gate.clear()
    body = form_of(FIVE_S, stream="true" if fields else "false")
    _, writer = await begin(server, body)
    await server.until(lambda: bool(server.scheduler.blocks))
    assert server.scheduler.open_texts == 1
    assert server.state.uploads.used_bytes == len(body)
    writer.close()
    await server.until(lambda: server.scheduler.open_texts == 0)
    await server.until(lambda: server.state.uploads.used_bytes == 0)
    assert not server.scheduler.texts
    # The audio ends for a thread that still reads it.
    assert not list(server.scheduler.audios[0])


async def test_a_busy_server_sends_retry_after(open_server: OpenServer) -> None:
    async with open_server(ScriptedScheduler(error=busy())) as server:
        response = await server.transcribe()
        assert response.headers["retry-after"] == "3"
        assert error_of(response, 429)["type"] == "rate_limit_error"


async def test_an_internal_error_is_only_in_the_log(
    open_server: OpenServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_server(ScriptedScheduler(error=KeyError("the secret text"))) as server:
        response = await server.transcribe()
        assert error_of(response, 500)["message"].startswith("internal error;")
        server.scheduler.error = EngineError("cublas: out of memory", status=500)
        assert "cublas" not in (await server.transcribe()).text
        assert (await server.client.get("/health")).status_code == 200
    assert "unexpected KeyError" in caplog.text
    assert "secret" not in response.text + caplog.text


async def test_an_error_after_the_first_segment(open_server: OpenServer) -> None:
    broken = ScriptedScheduler(error=ServiceError("the card is gone", status=503), fails_after=1)
    async with open_server(broken) as server:
        assert "card" in error_of(await server.transcribe(FIVE_S), 503)["message"]
        broken.texts.clear()
        response = await server.transcribe(FIVE_S, stream="true")
        events = events_of(response)
        assert [event["type"] for event in events] == ["transcript.text.delta", "error"]
        assert events[1]["error"]["message"] == "the card is gone"
        assert broken.open_texts == 0


async def test_a_request_ends_at_its_deadline(open_server: OpenServer) -> None:
    async with open_server(timeout_s=0.3) as server:
        server.scheduler.gate.clear()
        assert error_of(await server.transcribe(), 504)["code"] == "total_timeout"
        assert server.scheduler.open_texts == 0


async def test_64_requests_at_once(server: RunningServer) -> None:
    answers = await asyncio.gather(*(server.transcribe(FIVE_S) for _ in range(64)))
    assert {response.status_code for response in answers} == {200}
    assert {len(response.content) for response in answers} == {len(answers[0].content)}
    assert server.scheduler.open_texts == 0


async def test_no_text_and_no_file_name_is_logged(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG", logger="hearth_whisper"):
        await server.transcribe(prompt="Zanzibar")
        await server.transcribe(prompt="Zanzibar", language="Zanzibar")
        files = {"file": ("zanzibar.wav", SECOND)}
        await server.client.post("/v1/audio/transcriptions", files=files)
    assert "transcribe done audio_s=1.0" in caplog.text
    assert "anzibar" not in caplog.text
    assert "kettle" not in caplog.text


def form_of(file: bytes, **fields: str) -> bytes:
    """Return a form as a browser sends it; its boundary is xyz."""
    head = b'--xyz\r\nContent-Disposition: form-data; name="'
    parts = [head + f'{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields.items()]
    parts.append(head + b'file"; filename="a.wav"\r\n\r\n' + file + b"\r\n")
    return b"".join(parts) + b"--xyz--\r\n"


async def begin(
    server: RunningServer, body: bytes, length: int | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a request, or only its beginning."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = (
        "POST /v1/audio/transcriptions HTTP/1.1\r\nhost: x\r\n"
        "content-type: multipart/form-data; boundary=xyz\r\n"
        f"content-length: {length or len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + (body if length is None else form_of(body)[:-11]))
    await writer.drain()
    return reader, writer
