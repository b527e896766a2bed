"""Every alias answers over HTTPS, in one piece and streamed, and says who answered."""

import math
import time
from collections.abc import Iterator
from typing import Any

import pytest

from hearth import status
from hearth.catalogue.house import Alias, House
from hearth.clients.edge import Answer, Edge, sse
from hearth.clients.models import NOT_OFFERED, PENDING, Overview
from hearth.smoke.plugin import Notes, NotMeasured, Pending

pytestmark = pytest.mark.home

ANSWERED_BY = "x-hearth-model"
# A red square of 32 by 32.
PICTURE = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAKklEQVR42mM4oaFBU8QwasGoBaMWjFow"
    "asGoBaMWjFowasGoBaMWDBULABo2YD0ttAhSAAAAAElFTkSuQmCC"
)


@pytest.fixture(scope="session")
def overview(house: House) -> Overview:
    """Which models and aliases answer now, and how far the others are."""
    return status.models(house)


def question(alias: Alias, overview: Overview) -> dict[str, Any]:
    """Return a small question of the kind that an alias is for, once its model is there."""
    state = overview.aliases[alias.name]
    if state.state == PENDING:
        raise Pending(state.percent, state.reason or f"{state.waits_for} is being downloaded")
    if state.state == NOT_OFFERED:
        raise NotMeasured(state.reason)
    words: Any = "What is 2 + 2? Answer in one word."
    if alias.kind == "vision":
        words = [
            {"type": "text", "text": "Which colour is this? Answer in one word."},
            {"type": "image_url", "image_url": {"url": PICTURE}},
        ]
    message = {"role": "user", "content": words}
    return {"model": alias.name, "messages": [message], "max_tokens": 16}


def check_who(answer: Answer, model: str, alias: Alias) -> None:
    """Check that the answer names the member that gave it, twice and the same."""
    assert model in alias.members, f"`model` is {model!r}, none of {', '.join(alias.members)}"
    named = answer.headers.get(ANSWERED_BY)
    assert named == model, f"{ANSWERED_BY} is {named!r}, `model` is {model!r}"


def test_alias_answers(
    alias: Alias, overview: Overview, gateway: str, edge: Edge, key: str
) -> None:
    asked = question(alias, overview)
    if alias.kind == "embed":
        embeds(alias, gateway, edge, key)
        return
    answer = edge.request(
        gateway, "/v1/chat/completions", key=key, send=asked, within_s=alias.timeout_s
    )
    assert answer.status == 200, f"HTTP {answer.status}: {answer.text[:300]}"
    said = answer.json()
    assert said["choices"][0]["message"]["content"].strip(), "the answer is empty"
    check_who(answer, said["model"], alias)


def embeds(alias: Alias, gateway: str, edge: Edge, key: str) -> None:
    """Check that two texts become two different arrows of one length in number of values."""
    send = {"model": alias.name, "input": ["bread and butter", "the moon landing"]}
    answer = edge.request(gateway, "/v1/embeddings", key=key, send=send, within_s=alias.timeout_s)
    assert answer.status == 200, f"HTTP {answer.status}: {answer.text[:300]}"
    said = answer.json()
    one, two = (row["embedding"] for row in said["data"])
    assert len(one) == len(two) > 1
    assert one != two, "two texts have the same numbers"
    assert all(math.isfinite(value) for value in one)
    check_who(answer, said["model"], alias)


def test_alias_streams(
    speaker: Alias, overview: Overview, gateway: str, edge: Edge, key: str, notes: Notes
) -> None:
    send = question(speaker, overview) | {"stream": True}
    began = time.monotonic()
    with edge.stream(gateway, "/v1/chat/completions", speaker.timeout_s, key, send) as (
        head,
        chunks,
    ):
        if head.status_code != 200:
            pytest.fail(f"HTTP {head.status_code}: {b''.join(chunks)[:300]!r}")
        pieces = list(_pieces(chunks))
        answer = Answer(head.status_code, head.headers, b"")
    times = [at for at, _, text in pieces if text]
    assert times, "the stream holds no text"
    named = {model for _, model, _ in pieces}
    assert len(named) == 1, f"the stream names several models: {named}"
    check_who(answer, named.pop(), speaker)
    notes.figure(f"first token of {speaker.name}, over HTTPS", "ms", [(times[0] - began) * 1000])


def _pieces(chunks: Iterator[bytes]) -> Iterator[tuple[float, str, str]]:
    """Yield when each event came, which model it names, and its text."""
    for event in sse(chunks):
        assert "error" not in event, f"the stream ends in an error: {event['error']}"
        choices = event.get("choices") or [{}]
        text = choices[0].get("delta", {}).get("content") or ""
        yield time.monotonic(), event["model"], text


def test_nothing_leaves_the_house_that_may_not(house: House) -> None:
    for alias in house.aliases.values():
        if not alias.cloud:
            away = [name for name in alias.members if not house.models[name].local]
            assert not away, f"{alias.name} would ask {', '.join(away)}"
