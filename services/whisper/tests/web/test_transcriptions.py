"""`POST /v1/audio/transcriptions` and `/translations`, over a socket."""

import asyncio
import json
from typing import Any

import httpx
import numpy as np
import pytest

from hearth_serving.errors import EngineError, ServiceError

from ..audio.sounds import encoded, png, tone, wav
from .conftest import SECOND, House, Opened, ScriptedWork, busy

FIVE_S = wav(tone(5.0).tobytes())
TEXT = "Good morning, the kettle is on. Good morning, the kettle"


def told(answer: httpx.Response, status: int = 400) -> dict[str, Any]:
    """Return the error of an answer in OpenAI's shape."""
    assert answer.status_code == status, answer.text
    error: dict[str, Any] = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert "\n" not in error["message"]
    return error


async def test_json(house: House) -> None:
    answer = await house.write(FIVE_S)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"text": TEXT, "usage": {"type": "duration", "seconds": 5}}
    assert house.work.open_texts == 0
    heard = np.concatenate(house.work.heard)
    assert np.array_equal(heard, tone(5.0).astype(np.float32) / 32768)


async def test_text(house: House) -> None:
    answer = await house.write(FIVE_S, response_format="text")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text == TEXT + "\n"


async def test_subtitles(house: House) -> None:
    srt = await house.write(FIVE_S, response_format="srt")
    assert srt.headers["content-type"].startswith("application/x-subrip")
    assert srt.text.split("\n\n")[1] == "2\n00:00:02,000 --> 00:00:04,000\nis on. Good morning,"
    vtt = await house.write(FIVE_S, response_format="vtt")
    assert vtt.headers["content-type"].startswith("text/vtt")
    assert vtt.text.split("\n\n")[:2] == [
        "WEBVTT",
        "00:00:00.000 --> 00:00:02.000\nGood morning, the kettle",
    ]


async def test_verbose_json_with_segments(house: House) -> None:
    answer = (await house.write(FIVE_S, response_format="verbose_json")).json()
    assert (answer["task"], answer["language"]) == ("transcribe", "english")
    assert (answer["duration"], answer["text"]) == (5.0, TEXT)
    assert [segment["id"] for segment in answer["segments"]] == [0, 1, 2]
    assert answer["segments"][1] == {
        "id": 1, "seek": 200, "start": 2.0, "end": 4.0, "text": " is on. Good morning,",
        "tokens": [7, 8], "temperature": 0.0, "avg_logprob": -0.3, "compression_ratio": 1.0,
        "no_speech_prob": 0.0,
    }  # fmt: skip
    assert "words" not in answer
    assert not house.work.asked[0].words


@pytest.mark.parametrize("both", [False, True])
async def test_verbose_json_with_words(house: House, both: bool) -> None:
    granularities = ["word", "segment"] if both else ["word"]
    fields = {"timestamp_granularities[]": granularities}
    answer = (await house.write(SECOND, fields, response_format="verbose_json")).json()
    assert answer["words"] == [
        {"word": "Good", "start": 0.0, "end": 0.5},
        {"word": "morning,", "start": 0.5, "end": 1.0},
    ]
    assert ("segments" in answer) is both
    assert house.work.asked[0].words


async def test_events_leave_as_segments_come(house: House) -> None:
    house.work.gate.clear()
    files = {"file": ("speech.wav", FIVE_S)}
    sent: list[dict[str, Any]] = []
    asking = house.client.build_request(
        "POST", "/v1/audio/transcriptions", files=files, data={"stream": "true"}
    )
    opening = asyncio.create_task(house.client.send(asking, stream=True))
    await house.until(lambda: bool(house.work.heard))
    house.work.gate.set()
    answer = await opening
    assert answer.headers["content-type"].startswith("text/event-stream")
    async for line in answer.aiter_lines():
        if line:
            sent.append(json.loads(line.removeprefix("data: ")))
            house.work.gate.clear()
            # The next segment is not even begun before the last one could be read.
            assert len(house.work.said) <= len(sent) + 1
            house.work.gate.set()
    await answer.aclose()
    assert [event["type"] for event in sent] == ["transcript.text.delta"] * 3 + [
        "transcript.text.done"
    ]
    assert "".join(event.get("delta", "") for event in sent) == sent[-1]["text"] == TEXT


def events_of(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line]


async def test_events_with_times(house: House) -> None:
    answer = await house.write(FIVE_S, stream="true", response_format="verbose_json")
    *events, done = events_of(answer)
    assert done == {"type": "transcript.text.done", "text": TEXT}
    # Who shows lines as they come has each one's text and times together.
    kinds = [event["type"].removeprefix("transcript.text.") for event in events]
    assert kinds == ["delta", "segment"] * 3
    assert events[3] == {
        "type": "transcript.text.segment", "id": "1", "start": 2.0, "end": 4.0,
        "text": " is on. Good morning,",
    }  # fmt: skip
    assert [event["id"] for event in events[1::2]] == ["0", "1", "2"]
    assert "".join(event["delta"] for event in events[::2]) == TEXT


async def test_fields_reach_the_model(house: House) -> None:
    await house.write(language="German", prompt="Kessel", temperature="0.4")
    options = house.work.asked[0]
    assert (options.language, options.prompt, options.temperature) == ("de", "Kessel", 0.4)
    assert not options.translate
    await house.write(language="", prompt=" ", temperature="0")
    options = house.work.asked[1]
    assert (options.language, options.prompt, options.temperature) == (None, "", None)


async def test_translations(house: House) -> None:
    answer = await house.write(task="translations", response_format="verbose_json")
    assert answer.json()["task"] == "translate"
    assert house.work.asked[0].translate


async def test_a_model_of_english_alone_translates_nothing(open_house: Opened) -> None:
    async with open_house(ScriptedWork(multilingual=False)) as house:
        error = told(await house.write(task="translations"))
    assert error["code"] == "not_multilingual"


@pytest.mark.parametrize("model", ["whisper-1", "tiny.en", ""])
async def test_the_models_names(house: House, model: str) -> None:
    assert (await house.write(model=model)).status_code == 200


async def test_an_unknown_model_is_told_what_there_is(house: House) -> None:
    error = told(await house.write(model="gpt-4o-transcribe"), 404)
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
async def test_a_wrong_field_is_named(house: House, fields: dict[str, str], param: str) -> None:
    assert told(await house.write(SECOND, fields))["param"] == param
    assert not house.work.asked


async def test_fields_of_other_servers_are_ignored(house: House) -> None:
    fields = {"vad_filter": "true", "user": "somebody", "include[]": "logprobs"}
    answer = await house.write(SECOND, fields)
    assert answer.status_code == 200


SILENCE = wav(bytes(16_000 * 2 * 3))


@pytest.mark.parametrize(
    "file",
    [SILENCE, wav(b""), encoded("webm", "libopus", tone(0.02, 48_000), 48_000)],
    ids=["silence", "nothing", "an instant"],
)
@pytest.mark.parametrize("form", ["json", "text", "srt", "vtt", "verbose_json"])
async def test_where_nobody_speaks_there_is_no_text(house: House, file: bytes, form: str) -> None:
    answer = await house.write(file, response_format=form)
    assert answer.status_code == 200, answer.text
    if file == SILENCE or file == wav(b""):
        wanted = {"json": "", "text": "\n", "srt": "", "vtt": "WEBVTT\n", "verbose_json": ""}
        got = answer.json()["text"] if form.endswith("json") else answer.text
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
async def test_what_is_no_sound(house: House, file: bytes | None, code: str, stream: str) -> None:
    error = told(await house.write(file, stream=stream))
    assert (error["param"], error["code"]) == ("file", code)
    assert house.work.open_texts == 0


async def test_a_sound_that_is_too_long(open_house: Opened) -> None:
    async with open_house(audio_s=4) as house:
        assert told(await house.write(wav(tone(70.0).tobytes())))["code"] == "audio_too_long"
        # The header says nothing of it; it is found while it is heard.
        lying = bytearray(wav(tone(30.0).tobytes()))
        lying[40:44] = bytes(4)
        answer = await house.write(bytes(encoded("adts", "aac", tone(30.0, 48_000), 48_000)))
        assert told(answer)["code"] == "audio_too_long"


async def test_an_upload_over_its_limit(open_house: Opened) -> None:
    async with open_house(body_bytes=1_000_000) as house:
        for size in (1_000_000, 1_900_000, 5_000_000):
            assert told(await house.write(bytes(size)), 413)["code"] == "request_too_large"
        # What lay aside of it is forgotten, and the next one is heard.
        assert (await house.write(wav(bytes(900_000)))).status_code == 200


async def test_fields_over_their_limit(house: House) -> None:
    for fields in ({"prompt": "x" * 70_000}, {f"field{n}": "x" * 3_000 for n in range(30)}):
        error = told(await house.write(SECOND, fields), 413)
        assert "fields" in error["message"]
    error = told(await house.write(SECOND, {f"field{n}": "x" for n in range(70)}))
    assert "Maximum number of fields is 64" in error["message"]


async def test_all_uploads_together_have_a_limit(open_house: Opened) -> None:
    async with open_house(scratch_bytes=3_000_000) as house:
        house.work.gate.clear()
        first = asyncio.create_task(house.write(wav(bytes(2_000_000))))
        await house.until(lambda: bool(house.work.heard))
        answer = await house.write(wav(bytes(2_000_000)))
        assert told(answer, 503)["type"] == "service_unavailable_error"
        assert int(answer.headers["retry-after"]) > 0
        house.work.gate.set()
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
async def test_a_form_that_is_none(house: House, kind: str, body: bytes) -> None:
    answer = await house.client.post(
        "/v1/audio/transcriptions", content=body, headers={"content-type": kind}
    )
    error = told(answer)
    assert error["code"] == "invalid_form"
    assert "multipart/form-data" in error["message"]


async def test_two_files_are_one_too_many(house: House) -> None:
    files = [("file", ("a.wav", SECOND)), ("file", ("b.wav", SECOND))]
    answer = await house.client.post("/v1/audio/transcriptions", files=files)
    assert told(answer)["code"] == "invalid_form"


async def test_a_large_upload_arrives_whole_in_pieces_of_any_size(house: House) -> None:
    pcm = np.random.default_rng(3).integers(-9000, 9000, 16_000 * 60).astype(np.int16)
    # Returns and boundaries of its own make the parser's work hard.
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

    answer = await house.client.post(
        "/v1/audio/transcriptions",
        content=pieces(),
        headers={"content-type": "multipart/form-data; boundary=xyz"},
    )
    assert answer.status_code == 200, answer.text
    heard = np.concatenate(house.work.heard)
    assert np.array_equal(heard, pcm.astype(np.float32) / 32768)


async def test_a_slow_sender_is_not_waited_for(open_house: Opened) -> None:
    async with open_house(body_s=0.3, min_bytes_per_s=1e6) as house:
        reader, writer = await begin(house, bytes(600_000), length=900_000)
        for _ in range(200):
            writer.write(b"x")
            await asyncio.sleep(0.02)
            if reader._buffer:  # type: ignore[attr-defined]
                break
        assert b"408" in await asyncio.wait_for(reader.readline(), 3)
        writer.close()


async def test_one_that_is_fast_enough_may_take_longer(open_house: Opened) -> None:
    async with open_house(body_s=1.5, min_bytes_per_s=5_000) as house:

        async def pieces() -> Any:
            yield form_of(b"")[:-11]
            for at in range(0, len(SECOND), 2000):
                yield SECOND[at : at + 2000]
                await asyncio.sleep(0.1)
            yield b"\r\n--xyz--\r\n"

        answer = await house.client.post(
            "/v1/audio/transcriptions",
            content=pieces(),
            headers={"content-type": "multipart/form-data; boundary=xyz"},
        )
        assert answer.status_code == 200, answer.text


async def test_a_client_that_leaves_while_it_sends(house: House) -> None:
    _, writer = await begin(house, bytes(600_000), length=900_000)
    await house.until(lambda: house.desk.uploads.used_bytes > 0)
    writer.close()
    await house.until(lambda: house.desk.metrics.describe()["requests"]["refused"] == 1)  # type: ignore[index]
    assert house.desk.uploads.used_bytes == 0


@pytest.mark.parametrize("fields", [b"", b"stream"])
async def test_a_client_that_leaves_frees_its_work(house: House, fields: bytes) -> None:
    house.work.gate.clear()
    body = form_of(FIVE_S, stream="true" if fields else "false")
    _, writer = await begin(house, body)
    await house.until(lambda: bool(house.work.heard))
    assert house.work.open_texts == 1
    assert house.desk.uploads.used_bytes == len(body)
    writer.close()
    await house.until(lambda: house.work.open_texts == 0)
    await house.until(lambda: house.desk.uploads.used_bytes == 0)
    assert not house.work.said
    # Whoever still reads the sound gets no more of it.
    assert not list(house.work.sounds[0])


async def test_too_many_are_told_when_to_come_again(open_house: Opened) -> None:
    async with open_house(ScriptedWork(error=busy())) as house:
        answer = await house.write()
        assert answer.headers["retry-after"] == "3"
        assert told(answer, 429)["type"] == "rate_limit_error"


async def test_what_breaks_in_here_is_told_to_the_log_alone(
    open_house: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_house(ScriptedWork(error=KeyError("the secret text"))) as house:
        answer = await house.write()
        assert told(answer, 500)["message"].startswith("something broke here")
        house.work.error = EngineError("cublas: out of memory", status=500)
        assert "cublas" not in (await house.write()).text
        assert (await house.client.get("/health")).status_code == 200
    assert "unexpected KeyError" in caplog.text
    assert "secret" not in answer.text + caplog.text


async def test_what_breaks_later(open_house: Opened) -> None:
    broken = ScriptedWork(error=ServiceError("the card is gone", status=503), fails_after=1)
    async with open_house(broken) as house:
        assert "card" in told(await house.write(FIVE_S), 503)["message"]
        broken.said.clear()
        answer = await house.write(FIVE_S, stream="true")
        events = events_of(answer)
        assert [event["type"] for event in events] == ["transcript.text.delta", "error"]
        assert events[1]["error"]["message"] == "the card is gone"
        assert broken.open_texts == 0


async def test_a_request_ends_at_its_deadline(open_house: Opened) -> None:
    async with open_house(timeout_s=0.3) as house:
        house.work.gate.clear()
        assert told(await house.write(), 504)["code"] == "total_timeout"
        assert house.work.open_texts == 0


async def test_sixty_four_at_once(house: House) -> None:
    answers = await asyncio.gather(*(house.write(FIVE_S) for _ in range(64)))
    assert {answer.status_code for answer in answers} == {200}
    assert {len(answer.content) for answer in answers} == {len(answers[0].content)}
    assert house.work.open_texts == 0


async def test_no_word_of_anybody_is_in_the_log(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG", logger="hearth_whisper"):
        await house.write(prompt="Zanzibar")
        await house.write(prompt="Zanzibar", language="Zanzibar")
        files = {"file": ("zanzibar.wav", SECOND)}
        await house.client.post("/v1/audio/transcriptions", files=files)
    assert "transcribe done audio_s=1.0" in caplog.text
    assert "anzibar" not in caplog.text
    assert "kettle" not in caplog.text


def form_of(file: bytes, **fields: str) -> bytes:
    """Return a form as a browser writes it; its boundary is xyz."""
    head = b'--xyz\r\nContent-Disposition: form-data; name="'
    parts = [head + f'{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields.items()]
    parts.append(head + b'file"; filename="a.wav"\r\n\r\n' + file + b"\r\n")
    return b"".join(parts) + b"--xyz--\r\n"


async def begin(
    house: House, body: bytes, length: int | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a request, or only its beginning."""
    reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
    head = (
        "POST /v1/audio/transcriptions HTTP/1.1\r\nhost: x\r\n"
        "content-type: multipart/form-data; boundary=xyz\r\n"
        f"content-length: {length or len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + (body if length is None else form_of(body)[:-11]))
    await writer.drain()
    return reader, writer
