"""Satellites, with the protocol's own client: recordings in, transcripts out."""

import asyncio
from pathlib import Path

import av
import numpy as np
import pytest
from wyoming.asr import Transcribe, Transcript, TranscriptChunk
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong

from hearth_serving.errors import EngineError, ServiceError
from hearth_whisper.recognition import SAMPLE_RATE
from hearth_whisper.wyoming.server import start_server

from .conftest import (
    ConnectSatellite,
    OpenServer,
    ScriptedScheduler,
    Server,
    silence,
    tone,
)

SPOKEN = Path(__file__).parents[4] / "hearth/clients/recordings/3s-1.opus"


async def test_describe_names_the_model_and_its_languages(
    server: Server, connect_satellite: ConnectSatellite
) -> None:
    async with connect_satellite(server) as satellite:
        await satellite.send(Describe())
        info = Info.from_event(await satellite.receive())
    (program,) = info.asr
    assert program.installed
    assert program.supports_transcript_streaming
    (model,) = program.models
    assert (model.name, model.installed) == ("small", True)
    assert {"en", "de", "yue"} <= set(model.languages)
    # Home Assistant creates an entity for each program in the info.
    assert not [*info.tts, *info.wake, *info.handle, *info.intent, *info.mic, *info.snd]
    assert info.satellite is None


async def test_an_english_model_offers_no_other_language(
    open_server: OpenServer, connect_satellite: ConnectSatellite
) -> None:
    described = {"model": "small.en", "multilingual": False}
    async with (
        open_server(ScriptedScheduler(described=described)) as server,
        connect_satellite(server) as satellite,
    ):
        await satellite.send(Describe())
        info = Info.from_event(await satellite.receive())
    assert info.asr[0].models[0].languages == ["en"]


async def test_describe_fails_before_a_model_is_loaded(
    open_server: OpenServer, connect_satellite: ConnectSatellite
) -> None:
    async with (
        open_server(ScriptedScheduler(described={})) as server,
        connect_satellite(server) as satellite,
    ):
        await satellite.send(Describe())
        assert (await satellite.refused()).code == "loading"


async def test_ping_is_answered_with_its_text(
    server: Server, connect_satellite: ConnectSatellite
) -> None:
    async with connect_satellite(server) as satellite:
        await satellite.send(Ping("there?"))
        assert Pong.from_event(await satellite.receive()).text == "there?"


async def test_the_text_is_sent_in_chunks_and_complete(
    open_server: OpenServer, connect_satellite: ConnectSatellite
) -> None:
    scheduler = ScriptedScheduler(texts=["One two.", "Three."])
    async with open_server(scheduler) as server, connect_satellite(server) as satellite:
        await satellite.send_recording(tone(1) + silence(2.5) + tone(1))
        events = await satellite.until("transcript-stop")
        assert server.outcomes == ["done"]
    kinds = [event.type for event in events]
    pieces = ["transcript-chunk"] * 2
    assert kinds == ["transcript-start", *pieces, "transcript", "transcript-stop"]
    transcript = Transcript.from_event(events[-2])
    assert (transcript.text, transcript.language) == ("One two. Three.", "en")
    chunks = [TranscriptChunk.from_event(event).text for event in events[1:3]]
    assert "".join(chunks) == transcript.text


async def test_japanese_has_no_spaces(
    open_server: OpenServer, connect_satellite: ConnectSatellite
) -> None:
    scheduler = ScriptedScheduler(texts=["\u4e00", "\u4e8c"], language="ja")
    async with open_server(scheduler) as server, connect_satellite(server) as satellite:
        await satellite.send_recording(tone(1) + silence(2.5) + tone(1))
        transcript = Transcript.from_event((await satellite.until("transcript"))[-1])
    assert (transcript.text, transcript.language) == ("\u4e00\u4e8c", "ja")


async def test_the_text_is_recognised_in_the_pause_before_the_stop(
    server: Server, connect_satellite: ConnectSatellite
) -> None:
    async with connect_satellite(server) as satellite:
        await satellite.send_recording(tone(1) + silence(0.4), stop=False)
        await server.until(lambda: len(server.scheduler.finals) == 1)
        await satellite.send(AudioStop())
        assert Transcript.from_event((await satellite.until("transcript"))[-1]).text == "Yes."
    # The final from the pause is the one that is sent.
    assert len(server.scheduler.finals) == 1


async def test_an_unloaded_model_is_loaded_before_the_speech(
    server: Server, connect_satellite: ConnectSatellite
) -> None:
    async with connect_satellite(server) as satellite:
        await satellite.send(Transcribe(language="en"))
        await server.until(lambda: server.scheduler.preloads == 1)
        await satellite.send(AudioStart(SAMPLE_RATE, 2, 1))
        await server.until(lambda: server.scheduler.preloads == 2)
        assert not server.scheduler.finals
    async with connect_satellite(server) as satellite:
        # Also by a satellite that sends neither.
        await satellite.send(AudioChunk(SAMPLE_RATE, 2, 1, silence(0.1)))
        await server.until(lambda: server.scheduler.preloads == 3)


async def test_the_latency_is_reported(server: Server, connect_satellite: ConnectSatellite) -> None:
    async with connect_satellite(server) as satellite:
        await satellite.send_recording(tone(1) + silence(2.5) + tone(1))
        await satellite.until("transcript-stop")
    assert len(server.latencies) == 2
    assert min(server.latencies) >= 0


async def test_a_short_pause_does_not_cut_a_command(
    server: Server, connect_satellite: ConnectSatellite
) -> None:
    async with connect_satellite(server) as satellite:
        await satellite.send_recording(tone(1) + silence(1.5) + tone(1))
        events = await satellite.until("transcript-stop")
    assert [event.type for event in events].count("transcript-chunk") == 1
    assert len(server.scheduler.finals[-1][0]) > 3 * SAMPLE_RATE


async def test_the_model_gets_the_audio_that_was_sent(
    server: Server, connect_satellite: ConnectSatellite
) -> None:
    sent = tone(1.5)
    async with connect_satellite(server) as satellite:
        await satellite.send_recording(sent)
        await satellite.until("transcript-stop")
    ((samples, options),) = server.scheduler.finals
    assert np.array_equal(np.round(samples * 32_768).astype("<i2"), np.frombuffer(sent, "<i2"))
    assert options.language == "en"


async def test_one_connection_takes_several_recordings(
    server: Server, connect_satellite: ConnectSatellite
) -> None:
    async with connect_satellite(server) as satellite:
        for _ in range(3):
            await satellite.send_recording(tone(0.5))
            await satellite.until("transcript-stop")
    assert [len(samples) for samples, _ in server.scheduler.finals] == [SAMPLE_RATE // 2] * 3


async def test_silence_is_an_empty_text_without_a_recognition(
    server: Server, connect_satellite: ConnectSatellite
) -> None:
    async with connect_satellite(server) as satellite:
        await satellite.send_recording(silence(2))
        events = await satellite.until("transcript-stop")
    assert [event.type for event in events] == ["transcript-start", "transcript", "transcript-stop"]
    assert Transcript.from_event(events[1]).text == ""
    assert not server.scheduler.finals


async def test_an_empty_recording_needs_no_recognition(
    server: Server, connect_satellite: ConnectSatellite
) -> None:
    async with connect_satellite(server) as satellite:
        await satellite.send(Transcribe(), AudioStart(SAMPLE_RATE, 2, 1), AudioStop())
        assert Transcript.from_event((await satellite.until("transcript"))[-1]).text == ""
    assert not server.scheduler.finals


async def test_a_new_start_discards_the_open_recording(
    server: Server, connect_satellite: ConnectSatellite
) -> None:
    async with connect_satellite(server) as satellite:
        await satellite.send_recording(tone(1.0), stop=False)
        await satellite.send_recording(tone(0.5))
        await satellite.until("transcript")
    assert [len(samples) for samples, _ in server.scheduler.finals] == [SAMPLE_RATE // 2]
    assert server.outcomes == ["left", "done"]


async def test_transcribe_applies_to_one_recording(
    server: Server, connect_satellite: ConnectSatellite
) -> None:
    async with connect_satellite(server) as satellite:
        await satellite.send(Transcribe(language="de"), _second(), AudioStop())
        await satellite.until("transcript-stop")
        await satellite.send(_second(), AudioStop())
        await satellite.until("transcript-stop")
    assert [options.language for _, options in server.scheduler.finals] == ["de", None]


async def test_an_empty_utterance_is_no_chunk(
    open_server: OpenServer, connect_satellite: ConnectSatellite
) -> None:
    async with (
        open_server(ScriptedScheduler(texts=[""])) as server,
        connect_satellite(server) as satellite,
    ):
        await satellite.send_recording(tone(1))
        events = await satellite.until("transcript-stop")
    assert [event.type for event in events] == ["transcript-start", "transcript", "transcript-stop"]


async def test_a_long_recording_is_sent_in_chunks(
    open_server: OpenServer, connect_satellite: ConnectSatellite
) -> None:
    scheduler = ScriptedScheduler(texts=["One.", "Two.", "Three."])
    async with open_server(scheduler) as server, connect_satellite(server) as satellite:
        await satellite.send_recording(tone(60))
        events = await satellite.until("transcript-stop")
    assert events[-2].data["text"] == "One. Two. Three."
    assert all(len(samples) <= 30 * SAMPLE_RATE for samples, _ in scheduler.finals)


async def test_the_region_of_a_language_is_ignored(
    server: Server, connect_satellite: ConnectSatellite
) -> None:
    async with connect_satellite(server) as satellite:
        for language in ("en-GB", "pt_BR", "German", None):
            await satellite.send(Transcribe(language=language), _second(), AudioStop())
            await satellite.until("transcript-stop")
    assert [options.language for _, options in server.scheduler.finals] == ["en", "pt", "de", None]


@pytest.mark.parametrize("language", ["xx", 7, ["en"]])
async def test_an_invalid_language_is_rejected(
    server: Server, connect_satellite: ConnectSatellite, language: object
) -> None:
    async with connect_satellite(server) as satellite:
        await satellite.send(Transcribe(language=language))  # type: ignore[arg-type]
        error = await satellite.refused()
        assert error.code == "invalid_value"
        assert error.text.endswith("is not a known language; use a code such as en or de")


async def test_an_unsupported_language_is_rejected_at_once(
    open_server: OpenServer, connect_satellite: ConnectSatellite
) -> None:
    described = {"model": "small.en", "multilingual": False}
    async with (
        open_server(ScriptedScheduler(described=described)) as server,
        connect_satellite(server) as satellite,
    ):
        await satellite.send(Transcribe(language="de"))
        assert (await satellite.refused()).code == "unsupported_language"


async def test_names_and_terms_become_the_prompt(
    server: Server, connect_satellite: ConnectSatellite
) -> None:
    names, terms = ["Anna", "Ben\nHur"], ["kettle", "Anna", *(f"thing{n}" for n in range(500))]
    transcribe = Transcribe(transcript_names=names, transcript_terms=terms)
    async with connect_satellite(server) as satellite:
        await satellite.send(transcribe, _second(), AudioStop())
        await satellite.until("transcript-stop")
    prompt = server.scheduler.finals[0][1].prompt
    assert prompt.startswith("Anna, Ben Hur, kettle, thing0")
    assert 500 < len(prompt) <= 600


async def test_the_name_of_another_model_is_rejected(
    server: Server, connect_satellite: ConnectSatellite
) -> None:
    async with connect_satellite(server) as satellite:
        await satellite.send(Transcribe(name="small"))
        await satellite.send(Transcribe(name="huge"))
        error = await satellite.refused()
    assert error.text == "there is no model 'huge'; use small"


async def test_a_busy_server_reports_it(
    open_server: OpenServer, connect_satellite: ConnectSatellite
) -> None:
    busy = ServiceError("too many wait", status=429, code="busy", retry_after_s=3)
    async with (
        open_server(ScriptedScheduler(error=busy)) as server,
        connect_satellite(server) as satellite,
    ):
        await satellite.send_recording(tone(0.5))
        error = await satellite.refused()
        assert (error.text, error.code) == ("too many wait", "busy")
        assert server.outcomes == ["busy"]


@pytest.mark.parametrize(
    "broken",
    [RuntimeError("the secret word"), ServiceError("the secret word broke it", status=500)],
)
async def test_an_internal_error_is_not_sent(
    open_server: OpenServer,
    connect_satellite: ConnectSatellite,
    caplog: pytest.LogCaptureFixture,
    broken: Exception,
) -> None:
    async with (
        open_server(ScriptedScheduler(error=broken)) as server,
        connect_satellite(server) as satellite,
    ):
        await satellite.send_recording(tone(0.5))
        error = await satellite.refused()
        assert server.outcomes == ["failed"]
    assert "secret" not in error.text + caplog.text
    assert isinstance(broken, ServiceError) or "RuntimeError" in caplog.text


async def test_an_engine_error_is_logged_once(
    open_server: OpenServer, connect_satellite: ConnectSatellite, caplog: pytest.LogCaptureFixture
) -> None:
    broken = EngineError("the recognition failed: bad alloc", status=500)
    broken.__cause__ = RuntimeError("bad alloc")
    async with (
        open_server(ScriptedScheduler(error=broken)) as server,
        connect_satellite(server) as satellite,
    ):
        await satellite.send_recording(tone(0.5))
        assert "bad alloc" not in (await satellite.refused()).text
        assert server.outcomes == ["failed"]
    assert caplog.text.count("the recognition failed: bad alloc") == 1


async def test_the_error_of_a_missing_vad_is_not_sent(
    open_server: OpenServer, connect_satellite: ConnectSatellite
) -> None:
    async def open_vad() -> None:
        raise ServiceError("/opt/secret is not there", status=500)

    async with open_server(open_vad=open_vad) as server, connect_satellite(server) as satellite:
        await satellite.send(_second())
        assert "secret" not in (await satellite.refused()).text


async def test_an_early_error_ends_a_long_recording(
    open_server: OpenServer, connect_satellite: ConnectSatellite
) -> None:
    async with (
        open_server(ScriptedScheduler(error=RuntimeError())) as server,
        connect_satellite(server) as satellite,
    ):
        await satellite.send_recording((tone(1) + silence(2.5)) * 20, stop=False)
        # The error arrives although the client did not read while it sent.
        await satellite.refused()
        assert server.outcomes == ["failed"]


async def test_the_real_vad_detects_speech_and_ignores_silence(
    connect_satellite: ConnectSatellite,
) -> None:
    scheduler = ScriptedScheduler()
    satellites = await start_server(scheduler, "127.0.0.1", 0)
    try:
        async with connect_satellite(Server(satellites, scheduler, [])) as satellite:
            for sound, finals in ((silence(3), 0), (speech(), 1)):
                await satellite.send_recording(sound)
                await satellite.until("transcript-stop")
                assert len(scheduler.finals) == finals
    finally:
        await satellites.close()


async def test_no_text_is_logged(
    server: Server,
    connect_satellite: ConnectSatellite,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    async with connect_satellite(server) as satellite:
        await satellite.send_recording(tone(1.5))
        await satellite.until("transcript-stop")
    assert "satellite done audio=1.5s" in caplog.text
    assert "Yes" not in caplog.text
    assert "unexpected" not in caplog.text


async def test_a_port_in_use_is_reported_in_one_line(server: Server) -> None:
    port = server.satellites.port
    with pytest.raises(ServiceError, match=f"cannot listen on 127.0.0.1 port {port}: "):
        await start_server(ScriptedScheduler(), "127.0.0.1", port)


async def test_stopping_closes_all_connections(
    open_server: OpenServer, connect_satellite: ConnectSatellite
) -> None:
    scheduler = ScriptedScheduler()
    scheduler.gate.clear()
    async with (
        open_server(scheduler) as server,
        connect_satellite(server) as satellite,
        connect_satellite(server) as other,
    ):
        await satellite.send_recording(tone(0.5))
        await other.send_recording(tone(0.5), stop=False)
        await server.until(lambda: len(scheduler.finals) == 1)
        await asyncio.wait_for(server.satellites.close(), 5)
        await satellite.closed()
        await other.closed()
    assert scheduler.cancelled == 1


def speech() -> bytes:
    """Return three seconds of recorded speech."""
    with av.open(str(SPOKEN)) as file:
        fit = av.AudioResampler("s16", "mono", SAMPLE_RATE)
        parts = [part for frame in file.decode(audio=0) for part in fit.resample(frame)]
    return b"".join(part.to_ndarray().tobytes() for part in parts)


def _second() -> AudioChunk:
    return AudioChunk(SAMPLE_RATE, 2, 1, tone(1.0))
