"""What goes through to a caller while an answer streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from hearth_gateway.answer import Answer
from hearth_gateway.call import Message, Refused

GOOD = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
LONG = b'data: {"choices": "' + b"x" * 200_000 + b'"}\n\n'
ASIDE = b"data: 1\n\n"
BROKEN = b'data: {"error": {"message": "TransferEncodingError", "code": "500"}}\n\n'
NAMED = b'event: error\ndata: {"type": "error", "error": {"message": "as it says"}}\n\n'


class Said:
    """A member that answers these pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self.status = 200
        self.headers: list[tuple[bytes, bytes]] = []
        self._pieces = pieces

    async def rest(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


def streamed(
    *pieces: bytes, aside: bytes = b"", chunks: bool = False
) -> tuple[Answer, bytes, Refused | None]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    answer, refused = Answer(send), None
    try:
        asyncio.run(answer.stream("m", Said(*pieces), aside, chunks=chunks))
    except Refused as error:
        refused = error
    return answer, b"".join(message.get("body", b"") for message in sent), refused


@pytest.mark.parametrize("size", [1000, 7777, 1_000_000])
def test_everything_arrives_however_it_is_cut(size: int) -> None:
    whole = b": waiting\n\n" + GOOD + LONG + GOOD + b"data: [DONE]\n\n" + b"data: hal"
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    answer, body, refused = streamed(*pieces, aside=ASIDE)
    assert body == whole.replace(GOOD, GOOD + ASIDE, 1)
    assert (answer.end, answer.ended, refused) == ("done", True, None)


def test_words_before_the_trouble_arrive_and_its_noise_does_not() -> None:
    answer, body, refused = streamed(GOOD + GOOD + BROKEN + GOOD)
    assert body == GOOD + GOOD
    assert answer.end == "broken_off"
    assert refused is not None
    assert refused.body["error"]["code"] == "broken_off"


def test_an_interface_with_names_for_its_events_is_left_alone() -> None:
    answer, body, refused = streamed(GOOD, NAMED)
    assert (body, answer.end, refused) == (GOOD + NAMED, "broken_off", None)


# As LiteLLM ends the answer of a server that breaks off in the Responses interface.
FAILED = (
    b"event: response.failed\n"
    b'data: {"type": "response.failed", "response": {"error": {"message": "cut"}}}\n\n'
)


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_nothing_that_looks_like_an_end_comes_behind_a_named_error(size: int) -> None:
    whole = GOOD + FAILED + b"data: [DONE]\n\n"
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    answer, body, refused = streamed(*pieces)
    assert (body, answer.end, answer.ended, refused) == (GOOD + FAILED, "broken_off", True, None)


# More than the form has, and the same without it.
FORGED = b'data: {"choices": [], "event": {"type": "execute"}, "timings": {"n": 1}}\n\n'
PLAIN = b'data: {"choices":[],"timings":{"n":1}}\n\n'
# A reader that takes each line for itself would find an event in the second one.
SPREAD = b'data: {"choices": [\ndata: {"event": 1}\ndata: ]}\n\n'
ON_ONE_LINE = b'data: {"choices":[{"event":1}]}\n\n'


@pytest.mark.parametrize("size", [1000, 7777, 1_000_000])
@pytest.mark.parametrize(
    ("given", "left"),
    [
        (FORGED, PLAIN),
        (SPREAD, ON_ONE_LINE),
        (LONG, LONG),
        (LONG.replace(b"}", b', "event": 1}'), LONG.replace(b": ", b":").replace(b":", b": ", 1)),
        (b'data: ["event"]\n\n', b""),
        (b'data: {"event": 1\n\n', b""),
        (b": waiting\n\n", b": waiting\n\n"),
    ],
)
def test_of_a_chunk_only_its_form_goes_on(size: int, given: bytes, left: bytes) -> None:
    # What was never ended is no chunk.
    whole = GOOD + given + GOOD + b"data: [DONE]\n\n" + FORGED.rstrip()
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    _, body, refused = streamed(*pieces, aside=ASIDE, chunks=True)
    assert body == GOOD + ASIDE + left + GOOD + b"data: [DONE]\n\n"
    assert refused is None


def test_in_a_chunk_a_named_error_is_trouble_like_any_other() -> None:
    _, body, refused = streamed(GOOD + NAMED, chunks=True)
    assert body == GOOD
    assert refused is not None
