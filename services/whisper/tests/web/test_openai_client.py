"""The official `openai` client, against the real server on a real socket."""

from collections.abc import AsyncIterator

import pytest
from openai import AsyncOpenAI, AuthenticationError, BadRequestError, NotFoundError, RateLimitError
from openai.types.audio import (
    TranscriptionTextDeltaEvent,
    TranscriptionTextDoneEvent,
    TranscriptionTextSegmentEvent,
    TranscriptionVerbose,
    TranslationVerbose,
)

from ..audio.sounds import encoded, tone, wav
from .conftest import OpenServer, RunningServer, ScriptedScheduler, busy

FILE = ("speech.wav", wav(tone(5.0).tobytes()))
TEXT = "Good morning, the kettle is on. Good morning, the kettle"


@pytest.fixture
async def client(server: RunningServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as made:
        yield made


async def test_json(client: AsyncOpenAI) -> None:
    written = await client.audio.transcriptions.create(model="whisper-1", file=FILE)
    assert written.text == TEXT
    assert written.usage is not None
    assert written.usage.type == "duration"
    assert written.usage.seconds == 5


@pytest.mark.parametrize("name", ["text", "srt", "vtt"])
async def test_text_formats(client: AsyncOpenAI, name: str) -> None:
    written = await client.audio.transcriptions.create(
        model="whisper-1",
        file=FILE,
        response_format=name,  # type: ignore[call-overload]
    )
    assert isinstance(written, str)
    assert "kettle" in written
    assert ("-->" in written) is (name != "text")


async def test_words_and_segments(client: AsyncOpenAI) -> None:
    written = await client.audio.transcriptions.create(
        model="whisper-1",
        file=FILE,
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
        temperature=0.2,
        prompt="Morning.",
        language="en",
    )
    assert isinstance(written, TranscriptionVerbose)
    assert (written.language, written.duration) == ("english", 5.0)
    assert [word.word for word in written.words or []] == TEXT.split()
    segments = written.segments or []
    assert "".join(segment.text for segment in segments).strip() == TEXT
    ends = [segment.end for segment in segments]
    assert ends == sorted(ends)
    assert 0 <= segments[0].start < segments[-1].end <= 5.0


async def test_events(client: AsyncOpenAI) -> None:
    stream = await client.audio.transcriptions.create(model="whisper-1", file=FILE, stream=True)
    events = [event async for event in stream]
    done = events.pop()
    assert isinstance(done, TranscriptionTextDoneEvent)
    deltas = [event for event in events if isinstance(event, TranscriptionTextDeltaEvent)]
    assert len(deltas) == len(events) == 3
    assert "".join(event.delta for event in deltas) == done.text == TEXT


async def test_events_with_times(client: AsyncOpenAI) -> None:
    stream = await client.audio.transcriptions.create(
        model="whisper-1", file=FILE, stream=True, response_format="verbose_json"
    )
    events = [event async for event in stream]
    segments = [event for event in events if isinstance(event, TranscriptionTextSegmentEvent)]
    assert [segment.id for segment in segments] == ["0", "1", "2"]
    assert [(segment.start, segment.end) for segment in segments] == [(0, 2), (2, 4), (4, 5)]
    assert "".join(segment.text for segment in segments).strip() == TEXT
    assert isinstance(events[-1], TranscriptionTextDoneEvent)


# The client marks the endpoint as deprecated; other programs still use it.
@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
async def test_translations(client: AsyncOpenAI) -> None:
    assert (await client.audio.translations.create(model="whisper-1", file=FILE)).text == TEXT
    verbose = await client.audio.translations.create(
        model="whisper-1", file=FILE, response_format="verbose_json"
    )
    assert isinstance(verbose, TranslationVerbose)
    assert (verbose.text, verbose.duration) == (TEXT, 5.0)


async def test_other_containers(client: AsyncOpenAI) -> None:
    for name, container, codec in (("a.mp3", "mp3", "libmp3lame"), ("a.webm", "webm", "libopus")):
        file = (name, encoded(container, codec, tone(3.0, 48_000), 48_000))
        written = await client.audio.transcriptions.create(model="whisper-1", file=file)
        assert written.text.startswith("Good morning, the kettle is on.")


async def test_errors_map_to_the_clients_exceptions(client: AsyncOpenAI) -> None:
    with pytest.raises(NotFoundError, match=r"tiny\.en") as missing:
        await client.audio.transcriptions.create(model="gpt-4o-transcribe", file=FILE)
    assert missing.value.param == "model"
    with pytest.raises(BadRequestError, match="no audio") as odd:
        await client.audio.transcriptions.create(model="whisper-1", file=("a.wav", b"a letter"))
    assert (odd.value.param, odd.value.code) == ("file", "unreadable_audio")
    assert [model.id async for model in client.models.list()] == ["tiny.en", "whisper-1"]


async def test_a_wrong_key_and_a_busy_server(open_server: OpenServer) -> None:
    async with open_server(ScriptedScheduler(error=busy()), key="right") as server:
        for key, error in (("wrong", AuthenticationError), ("right", RateLimitError)):
            async with AsyncOpenAI(
                base_url=f"{server.url}/v1", api_key=key, max_retries=0
            ) as client:
                with pytest.raises(error):
                    await client.audio.transcriptions.create(model="whisper-1", file=FILE)
