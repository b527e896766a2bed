"""A speaker at a scripted WebSocket: what is measured, what is sent, and what goes wrong."""

from __future__ import annotations

import time

import pytest

from hearth.bench.stt.requests import SttSample, result_of, stream_at_once
from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint
from hearth.clients.recordings import BYTES, RATE, Utterance
from hearth.clients.stt import NoStreamError, Stream, StreamEvent, StreamOptions, connected
from tests.ports import kept_port
from tests.unit.bench.stt.conftest import TONE_S, tone
from tests.unit.bench.stt.scripted import TEXT, Scripted

WORD = Utterance(TEXT, tone())
ENDS_S = 0.06
BRIEF = StreamOptions(lead_s=0.02, end_of_speech_ms=round(ENDS_S * 1000), wait_s=5.0)


def server(scripted: Scripted, habit: str, key: str | None = None) -> Endpoint:
    return Endpoint("server", scripted.at(habit), "whisper-1", key)


async def stream(endpoint: Endpoint, spoken: Utterance, options: StreamOptions) -> SttSample:
    (result,) = await stream_at_once(endpoint, [spoken], options)
    return result


async def test_the_text_is_counted_from_the_last_word(scripted: Scripted) -> None:
    result = await stream(server(scripted, "steady", "sesame"), WORD, BRIEF)
    assert (result.error, result.text, result.finals) == ("", TEXT, 1)
    # No text before the silence that ends the speech was heard, however fast the machine is.
    assert result.final_ms is not None
    assert result.final_ms >= ENDS_S * 1000
    assert result.ended_ms is not None
    assert ENDS_S * 1000 <= result.ended_ms <= result.final_ms
    assert result.started_ms is not None
    assert result.first_partial_ms is not None
    assert 0 < result.started_ms <= result.first_partial_ms
    assert (result.partials or 0) > 1
    assert scripted.headers[0]["authorization"] == "Bearer sesame"
    assert scripted.starts[0]["sample_rate"] == RATE
    assert scripted.starts[0]["end_of_speech_ms"] == 60
    assert scripted.starts[0]["partials"] is True


async def test_speech_ends_after_the_room_before_it_and_all_of_its_sound(
    scripted: Scripted,
) -> None:
    async with connected(server(scripted, "steady"), BRIEF, 10) as opened:
        before = time.perf_counter()
        ended, end_s = await opened.speak(WORD)
        await opened.end()
    assert end_s == pytest.approx(BRIEF.lead_s + WORD.seconds)
    assert ended >= before + BRIEF.lead_s + WORD.seconds


async def test_a_flush_comes_with_the_last_word_and_once(scripted: Scripted) -> None:
    manner = StreamOptions(0.02, 2000, flush=True, partials=False)
    result = await stream(server(scripted, "steady"), WORD, manner)
    assert (result.error, result.text) == ("", TEXT)
    flushes = [at for order, at in scripted.orders if order == "flush"]
    chunk = 0.02 * RATE * BYTES
    assert flushes == [pytest.approx(len(WORD.pcm) + 0.02 * RATE * BYTES, abs=chunk)]
    assert scripted.starts[0]["partials"] is False


async def test_a_speech_that_is_cut_ends_with_its_last_text(scripted: Scripted) -> None:
    result = await stream(server(scripted, "cutting"), WORD, BRIEF)
    assert (result.finals, result.text) == (2, f"put {TEXT}")
    assert result.final_ms is not None
    assert result.final_ms >= ENDS_S * 1000


@pytest.mark.parametrize(
    ("habit", "error"),
    [
        ("hanging-up", "it closed the connection (1011)"),
        ("erring", "no model"),
        ("full", "the WebSocket was rejected"),
    ],
)
async def test_what_goes_wrong_is_one_line(scripted: Scripted, habit: str, error: str) -> None:
    result = await stream(server(scripted, habit), WORD, BRIEF)
    assert error in result.error
    assert "\n" not in result.error


async def test_a_text_that_never_comes_is_not_waited_for(scripted: Scripted) -> None:
    # `talk` grants as long again for all the rest: too little where a machine stalls.
    result = await stream(server(scripted, "mute"), WORD, StreamOptions(0.02, 60, wait_s=2))
    assert result.error == "no final text within 2 s after the last word"


async def test_a_missing_server_is_one_line() -> None:
    with kept_port() as port:
        result = await stream(Endpoint("s", f"http://127.0.0.1:{port}", "whisper-1"), WORD, BRIEF)
    assert result.error.startswith("the connection broke: ConnectionRefusedError")


async def test_a_server_without_a_socket_is_distinguished_from_one_that_refuses(
    scripted: Scripted,
) -> None:
    with pytest.raises(NoStreamError):
        await stream(server(scripted, "deaf"), WORD, BRIEF)


async def test_four_are_on_the_line_before_the_first_speaks(scripted: Scripted) -> None:
    result = await stream_at_once(server(scripted, "steady"), [WORD] * 4, BRIEF)
    assert [one.text for one in result] == [TEXT] * 4
    assert scripted.most_open == 4
    assert [order for order, _ in scripted.orders][:4] == ["start"] * 4


async def test_one_of_four_that_is_refused_leaves_no_figure(scripted: Scripted) -> None:
    result = await stream_at_once(server(scripted, "full"), [WORD] * 4, BRIEF)
    assert [bool(one.error) for one in result] == [True] * 4


async def test_a_line_that_is_not_done_in_time_is_closed(scripted: Scripted) -> None:
    with pytest.raises(ClientError, match=r"did not end within 0\.1 s"):
        async with connected(server(scripted, "steady"), BRIEF, 0.1) as opened:
            await opened.done.wait()


def receive(opened: Stream, arrived_s: float, **payload: object) -> None:
    opened.events.append(StreamEvent(arrived_s, payload))


def an_open_line() -> Stream:
    socket: object = None
    return Stream(socket, BRIEF)  # type: ignore[arg-type]


def test_every_time_is_counted_from_its_own_beginning() -> None:
    opened = an_open_line()
    receive(opened, 10.1, type="speech_started", at_s=0.5, utterance=1)
    receive(opened, 10.2, type="partial", text="", utterance=1)
    receive(opened, 10.4, type="partial", text="put", utterance=1)
    receive(opened, 10.5, type="final", text=" put ", utterance=1)
    receive(opened, 10.9, type="speech_ended", at_s=1.0, utterance=2)
    receive(opened, 11.2, type="final", text="it on", utterance=2)
    # What was heard after the last word is no answer to it.
    receive(opened, 11.3, type="speech_started", at_s=1.1, utterance=3)
    receive(opened, 11.9, type="speech_ended", at_s=1.2, utterance=3)
    receive(opened, 12.9, type="final", text="", utterance=3)
    spoken = Utterance("", bytes(RATE * BYTES // 2))
    result = result_of(spoken, opened, 10.5, 1.0)
    assert (result.audio_s, result.partials, result.finals, result.text) == (0.5, 1, 3, "put it on")
    assert result.final_ms == pytest.approx(700)
    assert result.ended_ms == pytest.approx(400)
    assert result.started_ms == pytest.approx(100)
    assert result.first_partial_ms == pytest.approx(400)


def test_it_is_complete_with_the_text_of_what_ended_last() -> None:
    opened = an_open_line()
    end_s = 30.0
    receive(opened, 1, type="final", text="a", utterance=1)
    receive(opened, 2, type="speech_ended", at_s=27.0, utterance=1)
    assert not opened.final(end_s)
    receive(opened, 3, type="speech_ended", at_s=29.9, utterance=2)
    assert not opened.final(end_s)
    receive(opened, 4, type="final", text="b", utterance=2)
    assert opened.final(end_s)


def test_a_tone_is_as_long_as_it_says() -> None:
    assert WORD.seconds == pytest.approx(TONE_S)
