"""`POST /v1/audio/speech`, over a socket."""

import asyncio
import base64
import json
import socket
import threading
from typing import Any

import httpx
import pytest

from hearth_kokoro.text.tokenizer import tokenize
from hearth_kokoro.text.tokens import Token
from hearth_serving.errors import EngineError, ServiceError

from .conftest import SEGMENT_S, RunningServer, ScriptedSynthesizer, StartServer, busy
from .decoding import hear

FORMATS = ("mp3", "opus", "aac", "flac", "wav", "pcm")
WORDS = "One two three four five six, seven eight nine."


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", FORMATS)
async def test_every_format_decodes_to_sound(
    server: RunningServer, name: str, stream: bool
) -> None:
    answer = await server.say(WORDS, response_format=name, stream=stream)
    assert answer.status_code == 200, answer.text
    assert "".join(server.synthesizer.spoken) == WORDS
    segments = len(server.synthesizer.spoken)
    assert hear(answer.content, name).seconds == pytest.approx(segments * SEGMENT_S, abs=0.09)
    assert ("content-length" in answer.headers) is not stream
    assert answer.headers["content-type"].startswith("audio/")


async def test_sound_is_sent_before_the_rest_is_synthesised(server: RunningServer) -> None:
    server.synthesizer.gate.clear()
    body = {"input": WORDS, "response_format": "pcm"}
    async with server.client.stream("POST", "/v1/audio/speech", json=body) as answer:
        heard = 0
        async for data in answer.aiter_raw():
            heard += len(data)
            if heard == round(SEGMENT_S * 48_000):
                # The rest is made only after this.
                assert len(server.synthesizer.spoken) == 1
                server.synthesizer.gate.set()
    assert len(server.synthesizer.spoken) == 3


async def test_events_carry_sound_and_the_text_that_it_speaks(server: RunningServer) -> None:
    answer = await server.say(WORDS, response_format="mp3", stream_format="sse")
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line]
    assert [event["type"] for event in events[:-1]] == ["speech.audio.delta"] * (len(events) - 1)
    assert events[-1]["type"] == "speech.audio.done"
    assert "".join(event.get("text", "") for event in events) == WORDS
    sound = b"".join(base64.b64decode(event.get("audio", "")) for event in events)
    assert hear(sound, "mp3").seconds == pytest.approx(
        len(server.synthesizer.spoken) * SEGMENT_S, abs=0.09
    )


@pytest.mark.parametrize("name", FORMATS)
async def test_a_response_says_for_how_long_its_sound_was_held_back(
    start_server: StartServer, name: str
) -> None:
    async with start_server(ScriptedSynthesizer(held_s=2.5)) as server:
        held = await server.say(WORDS, response_format=name)
        early = await server.say(WORDS, response_format=name, early=True)
        assert held.headers["x-hearth-held-ms"] == "2500"
        assert "x-hearth-held-ms" not in early.headers
        assert len(held.content) == len(early.content)
        status = (await server.client.get("/status")).json()
        assert status["held_ms"]["median"] == 2500
        metrics = (await server.client.get("/metrics")).text
        assert "kokoro_held_seconds_count 1.0" in metrics


async def test_events_announce_the_wait_and_name_what_it_was(start_server: StartServer) -> None:
    async with start_server(ScriptedSynthesizer(held_s=2.5)) as server:
        answer = await server.say(WORDS, response_format="pcm", stream_format="sse")
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line]
    assert events[0] == {"type": "speech.audio.held", "wait_ms": 2500}
    assert events[1]["held_ms"] == 2500
    assert not any("held_ms" in event for event in events[2:])
    assert "".join(event.get("text", "") for event in events) == WORDS


@pytest.mark.parametrize("text", ["...", "?!", "\u2014 \u2026", "\x00\x01", "***"])
async def test_a_text_without_words_is_rejected(server: RunningServer, text: str) -> None:
    answer = await server.say(text)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "empty_input"


async def test_an_unknown_voice_gets_near_names(server: RunningServer) -> None:
    answer = await server.say(voice="af_hart")
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "voice")
    assert "af_heart" in error["message"]


async def test_too_many_requests_get_a_retry_after(start_server: StartServer) -> None:
    async with start_server(ScriptedSynthesizer(error=busy())) as server:
        answer = await server.say()
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")
        assert answer.json()["error"]["type"] == "rate_limit_error"


async def test_a_failure_before_the_first_sound_is_a_json_error(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with start_server(ScriptedSynthesizer(error=KeyError("the secret text"))) as server:
        answer = await server.say()
        assert answer.status_code == 500
        assert "unexpected KeyError at conftest.py" in caplog.text
        assert "secret" not in answer.text + caplog.text
        assert (await server.client.get("/health")).status_code == 200


async def test_an_engine_error_is_logged_and_not_sent(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(EngineError) as raised:
        raise EngineError("model.onnx failed: node /decoder", status=500) from OSError("x")
    for fields in ({}, {"stream": False}, {"stream_format": "sse"}):
        async with start_server(ScriptedSynthesizer(error=raised.value, fails_after=0)) as server:
            answer = await server.say(**fields)
        assert answer.json()["error"]["message"].startswith("internal error;")
    lines = [message for message in caplog.messages if "decoder" in message]
    assert len(lines) == 3, lines
    assert lines[0].startswith("unexpected model.onnx failed: node /decoder at ")


async def test_the_text_of_another_exception_is_neither_logged_nor_sent(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    raised = ServiceError("speaking failed: the secret text", status=500)
    raised.__cause__ = ValueError("the secret text")
    async with start_server(ScriptedSynthesizer(error=raised, fails_after=0)) as server:
        answer = await server.say()
    assert "unexpected ValueError" in caplog.text
    assert "secret" not in answer.text + caplog.text


async def test_a_text_without_a_word_does_not_block_other_requests(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, others_were_heard = threading.Event(), threading.Event()

    def slow(text: str, language: str) -> list[Token]:
        begun.set()
        assert others_were_heard.wait(5), "no other request was answered meanwhile"
        return tokenize(text, language)

    monkeypatch.setattr("hearth_kokoro.web.speech.tokenize", slow)
    requested = asyncio.create_task(server.say("\u2014 " * 10))
    assert await asyncio.to_thread(begun.wait, 5)
    assert (await server.client.get("/health")).status_code == 200
    others_were_heard.set()
    assert (await requested).json()["error"]["code"] == "empty_input"


async def test_a_failure_after_the_first_sound_leaves_the_response_incomplete(
    start_server: StartServer,
) -> None:
    broken = ScriptedSynthesizer(error=RuntimeError("x"), fails_after=1)
    async with start_server(broken) as server:
        with pytest.raises(httpx.RemoteProtocolError):
            await server.say(WORDS)
        answer = await server.say(WORDS, stream_format="sse")
        last = json.loads(answer.text.strip().splitlines()[-1][6:])
        assert (last["type"], last["error"]["type"]) == ("error", "server_error")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_its_work(start_server: StartServer, stream: bool) -> None:
    async with start_server(ScriptedSynthesizer(piece_s=60)) as server:
        body = json.dumps({"input": WORDS, "stream": stream}).encode()
        _, writer = await _post(server, body)
        await server.until(lambda: server.synthesizer.active == 1)
        writer.close()
        await server.until(lambda: server.synthesizer.active == 0)
        assert server.synthesizer.stopped_early == 1


async def test_a_client_that_does_not_read_is_disconnected(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The kernel would let it go as well; here it is our own clock that is tried.
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT")
    async with start_server(write_s=0.3) as server:
        body = json.dumps({"input": "word " * 3000, "response_format": "pcm"}).encode()
        _, writer = await _post(server, body)
        await server.until(lambda: server.synthesizer.active == 1)
        await server.until(lambda: server.synthesizer.active == 0, within_s=5)
        assert server.synthesizer.stopped_early == 1
        writer.close()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_ends_at_its_deadline(start_server: StartServer, stream: bool) -> None:
    async with start_server(timeout_s=1) as server:
        # The first piece comes at once, and the others never.
        server.synthesizer.gate.clear()
        if stream:
            with pytest.raises(httpx.RemoteProtocolError):
                await server.say(WORDS * 3)
        else:
            answer = await server.say(WORDS * 3, stream=False)
            assert answer.json()["error"]["code"] == "total_timeout"
        assert server.synthesizer.active == 0


async def test_the_body_limit_applies_while_the_body_is_read(start_server: StartServer) -> None:
    async with start_server(body_bytes=1000) as server:

        async def chunks() -> Any:
            for _ in range(20):
                yield b"x" * 100

        for content in (b"x" * 2000, chunks()):
            answer = await server.client.post("/v1/audio/speech", content=content)
            assert answer.status_code == 413
            assert answer.json()["error"]["code"] == "request_too_large"


async def test_a_body_that_never_ends_times_out(start_server: StartServer) -> None:
    async with start_server(body_s=0.2) as server:
        reader, writer = await _post(server, b'{"input":', length=500)
        assert b"408" in await asyncio.wait_for(reader.readline(), 3)
        writer.close()


async def test_a_megabyte_without_a_space_is_rejected_at_once(server: RunningServer) -> None:
    answer = await server.say("a" * 1_000_000)
    assert answer.json()["error"]["code"] == "string_above_max_length"


async def test_sixty_four_requests_at_once(start_server: StartServer) -> None:
    async with start_server(ScriptedSynthesizer(piece_s=0.01)) as server:
        answers = await asyncio.gather(
            *(server.say(WORDS, response_format="wav") for _ in range(64))
        )
        assert {answer.status_code for answer in answers} == {200}
        assert len({len(answer.content) for answer in answers}) == 1
        assert server.synthesizer.active == 0


async def test_no_text_is_logged(server: RunningServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", logger="hearth_kokoro"):
        await server.say("Zanzibar is far away.")
        await server.say("Zanzibar", voice="zanzibar")
    assert "speech done" in caplog.text
    assert "anzibar" not in caplog.text


async def _post(
    server: RunningServer, body: bytes, length: int | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    # limit: this side buffers little, so that the server notices that the client does not read.
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
    head = f"POST /v1/audio/speech HTTP/1.1\r\nhost: x\r\ncontent-length: {length or len(body)}"
    writer.write(head.encode() + b"\r\n\r\n" + body)
    await writer.drain()
    return reader, writer
