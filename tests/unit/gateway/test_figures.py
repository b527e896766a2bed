"""What figures are read from answers, whatever their servers write."""

from __future__ import annotations

import time
from typing import Any

import pytest

from hearth_gateway.figures import EndedRequest, Figures, Usage
from hearth_gateway.settings import Consumer, GatewayConfig, ModelInfo, Name
from hearth_serving.metrics import OUTCOMES


@pytest.mark.parametrize(
    ("event", "found"),
    [
        ({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}, (3, 4, 0)),
        ({"type": "response.completed", "response": {"usage": {"input_tokens": 5}}}, (5, None, 1)),
        ({"type": "message_start", "message": {"usage": {"input_tokens": 6}}}, (6, None, 0)),
        # A member outside the house may write anything.
        ({"choices": 3, "usage": "many"}, (None, None, 0)),
        ({"choices": ["x", {"delta": "y"}]}, (None, None, 0)),
        ({"usage": {"prompt_tokens": -3, "completion_tokens": "4"}}, (None, None, 0)),
        ({"usage": {"prompt_tokens": 10**30}}, (None, None, 0)),
        (["x"], (None, None, 0)),
        (None, (None, None, 0)),
    ],
)
def test_usage_is_read_or_ignored(event: Any, found: tuple[int | None, int | None, int]) -> None:
    usage = Usage()
    usage.read(event)
    assert (usage.input, usage.output, usage.pieces) == found


def test_the_usage_of_embeddings_is_beside_their_numbers() -> None:
    numbers = b"[" + b"0.125," * 10_000 + b"1]"
    count = b'"usage": {"prompt_tokens": 12, "total_tokens": 12}'
    for body in (b"{" + count + numbers, numbers + count + b"}"):
        usage = Usage()
        usage.read_embeddings(body)
        assert usage.input == 12
    usage.read_embeddings(numbers)
    assert usage.input is None


def config(leaves: bool = False) -> GatewayConfig:
    info = ModelInfo("", "", alias=False, talks=True, leaves=leaves)
    names = {name: Name(name, (name,), 1, 1, info) for name in ("a", "b")}
    consumer = Consumer("owner", b"", frozenset(names))
    return GatewayConfig(names, (consumer,))


def test_no_caller_can_add_series() -> None:
    figures = Figures(config())
    for number in range(1000):
        wild = f"wild-{number}"
        figures.ended(EndedRequest(wild, wild, wild, "done", False, 1.0, 0.5, Usage(1, 2)))
    page = figures.page().decode()
    assert "wild" not in page
    assert len(page.splitlines()) < 150
    assert 'hearth_consumer="other"' in page


def test_whatever_leaves_the_house_has_its_series_from_the_start() -> None:
    """Prometheus sees no increase where a counter appears with a 1; page and alerts read those."""
    figures = Figures(config(leaves=True))
    start = {line.rpartition(" ")[0] for line in figures.page().decode().splitlines()}
    for outcome in OUTCOMES:
        # Nobody is done without a token, and a member that has answered refuses nothing.
        for member in {"done": ("a",), "refused": ("",), "busy": ("",)}.get(outcome, ("a", "")):
            usage = Usage(1, 2) if member else None
            figures.ended(EndedRequest("owner", "a", member, outcome, True, 1.0, 0.5, usage))
    later = {line.rpartition(" ")[0] for line in figures.page().decode().splitlines()}
    counted = {line for line in later if "_total{" in line}
    assert counted <= start, counted - start
    assert len(counted) < 30


def test_recording_is_cheap() -> None:
    """In processor time, and with a margin of fifty: a request takes many milliseconds."""
    figures, usage = Figures(config()), Usage(1, 2)
    ended = EndedRequest("owner", "a", "b", "done", False, 1.0, 0.5, usage)
    start = time.process_time()
    for _ in range(1000):
        figures.ended(ended)
    assert (time.process_time() - start) / 1000 < 0.001
