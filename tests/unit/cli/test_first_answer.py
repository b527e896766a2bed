"""`hearth up` waits for the smallest model of the default alias, or reports why none answers."""

import io
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from hearth import status
from hearth.catalogue import House, derive, load
from hearth.cli import preflight, up
from hearth.cli.console import Display
from hearth.cli.up import early_answer, first_answer
from hearth.clients import ClientError
from hearth.clients.endpoints import Answer, Edge, sse
from hearth.clients.models import FAILED, PULLING, READY, TOO_BIG, ModelState, Overview

INVENTORY = Path(__file__).parents[3] / "inventory"
SMALLEST = "qwen2.5-coder:1.5b"
HELLO = b'{"model": "m", "choices": [{"message": {"content": " Hello. "}}]}'


@pytest.fixture(scope="module")
def house() -> House:
    return derive(load(INVENTORY))


def state(kind: str, percent: int = 0) -> ModelState:
    return ModelState(
        SMALLEST, SMALLEST, "ollama", "chat", kind, percent, percent * 10, 1000, reason="no room"
    )


class ScriptedEdge:
    """An edge that returns prepared answers in order."""

    def __init__(self, *answers: Answer | ClientError) -> None:
        self.answers: Iterator[Answer | ClientError] = iter(answers)
        self.requests: list[Any] = []

    def request(self, fqdn: str, path: str, **more: Any) -> Answer:
        self.requests.append((fqdn, path, more["key"], more["send"]["model"]))
        answer = next(self.answers)
        if isinstance(answer, ClientError):
            raise answer
        return answer


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that advances only during sleeps."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(up, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    return now


def run(
    house: House, edge: ScriptedEdge, states: list[ModelState], patch: pytest.MonkeyPatch
) -> Any:
    remaining = iter(states)
    patch.setattr(status, "models", lambda _house: Overview({SMALLEST: next(remaining)}, {}))
    return first_answer(house, edge, "key")  # type: ignore[arg-type]


def test_the_smallest_model_is_waited_for_and_called(
    house: House, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    edge = ScriptedEdge(ClientError("not yet"), Answer(502, {}, b""), Answer(200, {}, HELLO))
    states = [state(PULLING, 10), state(FAILED, 10), state(PULLING, 90), state(READY, 100)]
    answer = run(house, edge, states, monkeypatch)
    assert (answer, clock) == ((SMALLEST, "Hello."), [5.0])
    assert edge.requests == [("llm.lan", "/v1/chat/completions", "key", SMALLEST)] * 3


def test_a_model_that_does_not_fit_is_not_waited_for(
    house: House, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ClientError, match=f"^{SMALLEST}: no room: see `hearth models`$"):
        run(house, ScriptedEdge(), [state(TOO_BIG)], monkeypatch)


def test_the_last_error_is_reported_after_the_timeout(
    house: House, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    edge = ScriptedEdge(*[Answer(500, {}, b"out of memory")] * 400)
    with pytest.raises(ClientError, match="returns HTTP 500: out of memory: see `hearth logs"):
        run(house, edge, [state(READY, 100)], monkeypatch)


def test_a_house_without_a_model_of_its_own_waits_for_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(replace(house, aliases={}), ScriptedEdge(), [], monkeypatch) is None


@pytest.mark.parametrize(
    ("release", "error"),
    [
        ({"ID": "debian", "VERSION_ID": "13"}, ""),
        ({"ID": "debian", "VERSION_ID": "12", "PRETTY_NAME": "Debian 12"}, "Debian 12"),
        ({"ID": "ubuntu", "VERSION_ID": "13", "PRETTY_NAME": "Ubuntu"}, "runs Ubuntu"),
    ],
)
def test_where_a_house_can_be_built(
    monkeypatch: pytest.MonkeyPatch, release: dict[str, str], error: str
) -> None:
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: release)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    if not error:
        preflight.check()
        return
    with pytest.raises(preflight.PreflightError, match=error):
        preflight.check()


def test_a_user_who_is_not_root_gets_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    release = {"ID": "debian", "VERSION_ID": "13"}
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: release)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(preflight.PreflightError, match="sudo"):
        preflight.check()


def test_events_of_a_stream_are_read_whatever_the_pieces() -> None:
    stream = (
        b': hello\r\n\r\ndata: {"a": 1}\r\n\r\ndata: {"a": 2}\n\ndata: [DONE]\n\ndata: {"a": 3}\n'
    )
    for size in (1, 7, 1000):
        pieces = (stream[at : at + size] for at in range(0, len(stream), size))
        assert list(sse(pieces)) == [{"a": 1}, {"a": 2}]


def test_an_edge_without_its_root_prints_the_fix(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match=r"root\.crt: .*: run `hearth up`"):
        Edge("127.0.0.1", tmp_path / "root.crt").request("llm.lan", "/", within_s=1)


def test_a_new_house_answers_before_its_last_service_is_built(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root.crt"
    edge = ScriptedEdge(ClientError("not yet"), Answer(200, {}, HELLO), Answer(200, {}, b"twice"))
    states = iter([state(PULLING, 10), state(READY, 100), state(READY, 100)])
    monkeypatch.setattr(status, "models", lambda _: Overview({SMALLEST: next(states)}, {}))
    monkeypatch.setattr(up, "house_edge", lambda _: edge)
    monkeypatch.setattr(up, "ROOT_CERTIFICATE", root)
    vault = SimpleNamespace(get=lambda _: "key")
    project: Any = SimpleNamespace(house=lambda: house, vault=vault)
    stream, answered = io.StringIO(), threading.Event()
    look = early_answer(project, time.monotonic(), answered)
    shown = Display(Console(file=stream, width=200))
    # No certificate, a model on its way, a gateway that is not up: nothing is shown.
    for _ in range(3):
        look(shown)
        assert (stream.getvalue(), answered.is_set()) == ("", False)
        root.touch()
    look(shown)
    look(shown)
    assert answered.is_set()
    (line,) = stream.getvalue().splitlines()
    assert line.startswith(f"{SMALLEST} answered after ")
    assert line.endswith("s: “Hello.”")
