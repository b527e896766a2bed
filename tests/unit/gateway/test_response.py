"""What a caller gets while an answer streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from hearth_gateway.errors import MemberError
from hearth_gateway.litellm_call import Message
from hearth_gateway.response import Response, model_note

GOOD = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
LONG = b'data: {"choices": "' + b"x" * 200_000 + b'"}\n\n'
NOTE = b"data: 1\n\n"
BROKEN = b'data: {"error": {"message": "TransferEncodingError", "code": "500"}}\n\n'
NAMED = b'event: error\ndata: {"type": "error", "error": {"message": "as it says"}}\n\n'


class Pieces:
    """A member that answers with these pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self.status = 200
        self.headers: list[tuple[bytes, bytes]] = []
        self._pieces = pieces

    async def rest(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


def streamed(
    *pieces: bytes, note: bytes = b"", chunks: bool = False
) -> tuple[Response, bytes, MemberError | None]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    response, failed = Response(send), None
    try:
        asyncio.run(response.stream("m", Pieces(*pieces), note, chunks=chunks))
    except MemberError as error:
        failed = error
    return response, b"".join(message.get("body", b"") for message in sent), failed


@pytest.mark.parametrize("size", [1000, 7777, 1_000_000])
def test_chunks_may_end_anywhere(size: int) -> None:
    whole = b": waiting\n\n" + GOOD + LONG + GOOD + b"data: [DONE]\n\n" + b"data: hal"
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    response, body, failed = streamed(*pieces, note=NOTE)
    assert body == whole.replace(GOOD, GOOD + NOTE, 1)
    assert (response.end, response.ended, failed) == ("done", True, None)


def test_events_before_an_error_arrive_and_its_details_do_not() -> None:
    response, body, failed = streamed(GOOD + GOOD + BROKEN + GOOD)
    assert body == GOOD + GOOD
    assert response.end == "broken_off"
    assert failed is not None
    assert failed.body["error"]["code"] == "broken_off"


def test_streams_with_named_events_are_unchanged() -> None:
    response, body, failed = streamed(GOOD, NAMED)
    assert (body, response.end, failed) == (GOOD + NAMED, "broken_off", None)


# As LiteLLM ends the answer of a server that breaks off in the Responses interface.
FAILED = (
    b"event: response.failed\n"
    b'data: {"type": "response.failed", "response": {"error": {"message": "cut"}}}\n\n'
)


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_no_end_marker_follows_a_named_error(size: int) -> None:
    whole = GOOD + FAILED + b"data: [DONE]\n\n"
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    response, body, failed = streamed(*pieces)
    assert (body, response.end, response.ended, failed) == (GOOD + FAILED, "broken_off", True, None)


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
def test_only_known_fields_of_a_chunk_are_forwarded(size: int, given: bytes, left: bytes) -> None:
    # What was never ended is no chunk.
    whole = GOOD + given + GOOD + b"data: [DONE]\n\n" + FORGED.rstrip()
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    _, body, failed = streamed(*pieces, note=NOTE, chunks=True)
    assert body == GOOD + NOTE + left + GOOD + b"data: [DONE]\n\n"
    assert failed is None


def test_a_named_error_between_chunks_is_an_error() -> None:
    _, body, failed = streamed(GOOD + NAMED, chunks=True)
    assert body == GOOD
    assert failed is not None


def note(name: str, member: str, *failed: str, leaves: bool = False) -> str:
    event = model_note(name, member, failed, leaves)
    return str(json.loads(event[5:])["event"]["data"]["description"]) if event else ""


def test_the_note_names_the_answering_member_and_the_failed_ones() -> None:
    assert note("fast", "a") == "Answered by a"
    assert note("fast", "b", "a") == "Answered by b; a gave no answer"
    assert note("fast", "c", "a", "b") == "Answered by c; a and b gave no answer"
    assert note("far", "cloud", leaves=True) == "Answered by cloud, outside this house"
    assert note("a", "a") == ""
