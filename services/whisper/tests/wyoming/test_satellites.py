"""A satellite, by the protocol's own client, hears the text of what it said."""

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
from hearth_whisper.recognising import SAMPLE_RATE
from hearth_whisper.wyoming import start

from .conftest import Called, House, Opened, ScriptedWork, silence, tone

SPOKEN = Path(__file__).parents[4] / "hearth/clients/recordings/3s-1.opus"


async def test_describe_names_the_model_and_its_languages(house: House, call: Called) -> None:
    async with call(house) as caller:
        await caller.tell(Describe())
        info = Info.from_event(await caller.hear())
    (program,) = info.asr
    assert program.installed
    assert program.supports_transcript_streaming
    (model,) = program.models
    assert (model.name, model.installed) == ("small", True)
    assert {"en", "de", "yue"} <= set(model.languages)
    # Home Assistant makes an entity of each thing that is offered.
    assert not [*info.tts, *info.wake, *info.handle, *info.intent, *info.mic, *info.snd]
    assert info.satellite is None


async def test_a_model_for_english_offers_no_other_language(
    open_house: Opened, call: Called
) -> None:
    described = {"model": "small.en", "multilingual": False}
    async with open_house(ScriptedWork(described=described)) as house, call(house) as caller:
        await caller.tell(Describe())
        info = Info.from_event(await caller.hear())
    assert info.asr[0].models[0].languages == ["en"]


async def test_before_a_model_was_loaded_nothing_is_promised(
    open_house: Opened, call: Called
) -> None:
    async with open_house(ScriptedWork(described={})) as house, call(house) as caller:
        await caller.tell(Describe())
        assert (await caller.refused()).code == "loading"


async def test_ping_is_answered_with_its_text(house: House, call: Called) -> None:
    async with call(house) as caller:
        await caller.tell(Ping("there?"))
        assert Pong.from_event(await caller.hear()).text == "there?"


async def test_what_was_said_comes_in_pieces_and_as_a_whole(
    open_house: Opened, call: Called
) -> None:
    work = ScriptedWork(texts=["One two.", "Three."])
    async with open_house(work) as house, call(house) as caller:
        await caller.say(tone(1) + silence(2.5) + tone(1))
        heard = await caller.until("transcript-stop")
        assert house.ended == ["done"]
    kinds = [event.type for event in heard]
    pieces = ["transcript-chunk"] * 2
    assert kinds == ["transcript-start", *pieces, "transcript", "transcript-stop"]
    said = Transcript.from_event(heard[-2])
    assert (said.text, said.language) == ("One two. Three.", "en")
    chunks = [TranscriptChunk.from_event(event).text for event in heard[1:3]]
    assert "".join(chunks) == said.text


async def test_japanese_has_no_spaces(open_house: Opened, call: Called) -> None:
    work = ScriptedWork(texts=["\u4e00", "\u4e8c"], language="ja")
    async with open_house(work) as house, call(house) as caller:
        await caller.say(tone(1) + silence(2.5) + tone(1))
        said = Transcript.from_event((await caller.until("transcript"))[-1])
    assert (said.text, said.language) == ("\u4e00\u4e8c", "ja")


async def test_the_text_is_made_in_the_pause_before_the_stop(house: House, call: Called) -> None:
    async with call(house) as caller:
        await caller.say(tone(1) + silence(0.4), stop=False)
        await house.until(lambda: len(house.work.finals) == 1)
        await caller.tell(AudioStop())
        assert Transcript.from_event((await caller.until("transcript"))[-1]).text == "Yes."
    # What was made in the pause is what was sent.
    assert len(house.work.finals) == 1


async def test_a_model_that_rests_is_woken_before_a_word_is_said(
    house: House, call: Called
) -> None:
    async with call(house) as caller:
        await caller.tell(Transcribe(language="en"))
        await house.until(lambda: house.work.woken == 1)
        await caller.tell(AudioStart(SAMPLE_RATE, 2, 1))
        await house.until(lambda: house.work.woken == 2)
        assert not house.work.finals
    async with call(house) as caller:
        # And by one that says neither.
        await caller.tell(AudioChunk(SAMPLE_RATE, 2, 1, silence(0.1)))
        await house.until(lambda: house.work.woken == 3)


async def test_how_long_it_waited_for_its_text_is_told(house: House, call: Called) -> None:
    async with call(house) as caller:
        await caller.say(tone(1) + silence(2.5) + tone(1))
        await caller.until("transcript-stop")
    assert len(house.waited) == 2
    assert min(house.waited) >= 0


async def test_a_short_pause_does_not_cut_a_command(house: House, call: Called) -> None:
    async with call(house) as caller:
        await caller.say(tone(1) + silence(1.5) + tone(1))
        heard = await caller.until("transcript-stop")
    assert [event.type for event in heard].count("transcript-chunk") == 1
    assert len(house.work.finals[-1][0]) > 3 * SAMPLE_RATE


async def test_the_model_hears_what_was_sent(house: House, call: Called) -> None:
    sent = tone(1.5)
    async with call(house) as caller:
        await caller.say(sent)
        await caller.until("transcript-stop")
    ((samples, options),) = house.work.finals
    assert np.array_equal(np.round(samples * 32_768).astype("<i2"), np.frombuffer(sent, "<i2"))
    assert options.language == "en"


async def test_one_connection_takes_several_recordings(house: House, call: Called) -> None:
    async with call(house) as caller:
        for _ in range(3):
            await caller.say(tone(0.5))
            await caller.until("transcript-stop")
    assert [len(samples) for samples, _ in house.work.finals] == [SAMPLE_RATE // 2] * 3


async def test_silence_is_an_empty_text_and_asks_nobody(house: House, call: Called) -> None:
    async with call(house) as caller:
        await caller.say(silence(2))
        heard = await caller.until("transcript-stop")
    assert [event.type for event in heard] == ["transcript-start", "transcript", "transcript-stop"]
    assert Transcript.from_event(heard[1]).text == ""
    assert not house.work.finals


async def test_a_recording_without_sound_asks_nobody(house: House, call: Called) -> None:
    async with call(house) as caller:
        await caller.tell(Transcribe(), AudioStart(SAMPLE_RATE, 2, 1), AudioStop())
        assert Transcript.from_event((await caller.until("transcript"))[-1]).text == ""
    assert not house.work.finals


async def test_a_new_start_forgets_what_was_said(house: House, call: Called) -> None:
    async with call(house) as caller:
        await caller.say(tone(1.0), stop=False)
        await caller.say(tone(0.5))
        await caller.until("transcript")
    assert [len(samples) for samples, _ in house.work.finals] == [SAMPLE_RATE // 2]
    assert house.ended == ["left", "done"]


async def test_what_was_asked_holds_for_one_recording(house: House, call: Called) -> None:
    async with call(house) as caller:
        await caller.tell(Transcribe(language="de"), _second(), AudioStop())
        await caller.until("transcript-stop")
        await caller.tell(_second(), AudioStop())
        await caller.until("transcript-stop")
    assert [options.language for _, options in house.work.finals] == ["de", None]


async def test_an_utterance_without_words_is_no_piece(open_house: Opened, call: Called) -> None:
    async with open_house(ScriptedWork(texts=[""])) as house, call(house) as caller:
        await caller.say(tone(1))
        heard = await caller.until("transcript-stop")
    assert [event.type for event in heard] == ["transcript-start", "transcript", "transcript-stop"]


async def test_more_than_a_window_comes_piece_by_piece(open_house: Opened, call: Called) -> None:
    work = ScriptedWork(texts=["One.", "Two.", "Three."])
    async with open_house(work) as house, call(house) as caller:
        await caller.say(tone(60))
        heard = await caller.until("transcript-stop")
    assert heard[-2].data["text"] == "One. Two. Three."
    assert all(len(samples) <= 30 * SAMPLE_RATE for samples, _ in work.finals)


async def test_a_language_of_a_region_is_its_language(house: House, call: Called) -> None:
    async with call(house) as caller:
        for language in ("en-GB", "pt_BR", "German", None):
            await caller.tell(Transcribe(language=language), _second(), AudioStop())
            await caller.until("transcript-stop")
    assert [options.language for _, options in house.work.finals] == ["en", "pt", "de", None]


@pytest.mark.parametrize("language", ["xx", 7, ["en"]])
async def test_what_is_no_language_is_refused(house: House, call: Called, language: object) -> None:
    async with call(house) as caller:
        await caller.tell(Transcribe(language=language))  # type: ignore[arg-type]
        error = await caller.refused()
        assert error.code == "invalid_value"
        assert error.text.endswith("is not a known language; use a code such as en or de")


async def test_a_language_that_the_model_does_not_know_is_refused_at_once(
    open_house: Opened, call: Called
) -> None:
    described = {"model": "small.en", "multilingual": False}
    async with open_house(ScriptedWork(described=described)) as house, call(house) as caller:
        await caller.tell(Transcribe(language="de"))
        assert (await caller.refused()).code == "unsupported_language"


async def test_names_and_terms_become_the_prompt(house: House, call: Called) -> None:
    names, terms = ["Anna", "Ben\nHur"], ["kettle", "Anna", *(f"thing{n}" for n in range(500))]
    asked = Transcribe(transcript_names=names, transcript_terms=terms)
    async with call(house) as caller:
        await caller.tell(asked, _second(), AudioStop())
        await caller.until("transcript-stop")
    prompt = house.work.finals[0][1].prompt
    assert prompt.startswith("Anna, Ben Hur, kettle, thing0")
    assert 500 < len(prompt) <= 600


async def test_the_name_of_another_model_is_refused(house: House, call: Called) -> None:
    async with call(house) as caller:
        await caller.tell(Transcribe(name="small"))
        await caller.tell(Transcribe(name="huge"))
        error = await caller.refused()
    assert error.text == "there is no model 'huge'; use small"


async def test_who_is_busy_says_so(open_house: Opened, call: Called) -> None:
    busy = ServiceError("too many wait", status=429, code="busy", retry_after_s=3)
    async with open_house(ScriptedWork(error=busy)) as house, call(house) as caller:
        await caller.say(tone(0.5))
        error = await caller.refused()
        assert (error.text, error.code) == ("too many wait", "busy")
        assert house.ended == ["busy"]


@pytest.mark.parametrize(
    "broken",
    [RuntimeError("he said the secret word"), ServiceError("the secret word broke it", status=500)],
)
async def test_what_breaks_here_is_told_to_nobody(
    open_house: Opened, call: Called, caplog: pytest.LogCaptureFixture, broken: Exception
) -> None:
    async with open_house(ScriptedWork(error=broken)) as house, call(house) as caller:
        await caller.say(tone(0.5))
        error = await caller.refused()
        assert house.ended == ["failed"]
    assert "secret" not in error.text + caplog.text
    assert isinstance(broken, ServiceError) or "RuntimeError" in caplog.text


async def test_what_breaks_in_the_engine_is_logged_once(
    open_house: Opened, call: Called, caplog: pytest.LogCaptureFixture
) -> None:
    broken = EngineError("the recognition failed: bad alloc", status=500)
    broken.__cause__ = RuntimeError("bad alloc")
    async with open_house(ScriptedWork(error=broken)) as house, call(house) as caller:
        await caller.say(tone(0.5))
        assert "bad alloc" not in (await caller.refused()).text
        assert house.ended == ["failed"]
    assert caplog.text.count("the recognition failed: bad alloc") == 1


async def test_a_detector_that_is_not_there_is_told_to_nobody(
    open_house: Opened, call: Called
) -> None:
    async def ear() -> None:
        raise ServiceError("/opt/secret is not there", status=500)

    async with open_house(ear=ear) as house, call(house) as caller:
        await caller.tell(_second())
        assert "secret" not in (await caller.refused()).text


async def test_what_breaks_early_ends_an_endless_recording(
    open_house: Opened, call: Called
) -> None:
    async with open_house(ScriptedWork(error=RuntimeError())) as house, call(house) as caller:
        await caller.say((tone(1) + silence(2.5)) * 20, stop=False)
        # It hears why, although it did not listen while it spoke.
        await caller.refused()
        assert house.ended == ["failed"]


async def test_the_real_detector_hears_speech_and_no_silence(call: Called) -> None:
    work = ScriptedWork()
    satellites = await start(work, "127.0.0.1", 0)
    try:
        async with call(House(satellites, work, [])) as caller:
            for sound, finals in ((silence(3), 0), (speech(), 1)):
                await caller.say(sound)
                await caller.until("transcript-stop")
                assert len(work.finals) == finals
    finally:
        await satellites.close()


async def test_no_text_is_in_the_log(
    house: House, call: Called, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with call(house) as caller:
        await caller.say(tone(1.5))
        await caller.until("transcript-stop")
    assert "satellite done audio=1.5s" in caplog.text
    assert "Yes" not in caplog.text
    assert "unexpected" not in caplog.text


async def test_a_taken_port_is_one_line(house: House) -> None:
    port = house.satellites.port
    with pytest.raises(ServiceError, match=f"cannot listen on 127.0.0.1 port {port}: "):
        await start(ScriptedWork(), "127.0.0.1", port)


async def test_at_the_end_everybody_is_hung_up_on(open_house: Opened, call: Called) -> None:
    work = ScriptedWork()
    work.gate.clear()
    async with open_house(work) as house, call(house) as caller, call(house) as other:
        await caller.say(tone(0.5))
        await other.say(tone(0.5), stop=False)
        await house.until(lambda: len(work.finals) == 1)
        await asyncio.wait_for(house.satellites.close(), 5)
        await caller.hung_up()
        await other.hung_up()
    assert work.cancelled == 1


def speech() -> bytes:
    """Return three seconds of somebody's speech."""
    with av.open(str(SPOKEN)) as file:
        fit = av.AudioResampler("s16", "mono", SAMPLE_RATE)
        parts = [part for frame in file.decode(audio=0) for part in fit.resample(frame)]
    return b"".join(part.to_ndarray().tobytes() for part in parts)


def _second() -> AudioChunk:
    return AudioChunk(SAMPLE_RATE, 2, 1, tone(1.0))
