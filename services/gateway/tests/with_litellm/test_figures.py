"""The figures for Prometheus: which requests are in them, and under which names."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from .chats import CHAT, chat, disconnect
from .conftest import Gateway
from .house import MODES
from .upstream import Upstream

COMPLETIONS, RESPONSES, MESSAGES = "/v1/completions", "/v1/responses", "/v1/messages"
FIRST, TOKEN, WHOLE = (
    f"gen_ai_server_{name}_seconds_{{}}"
    for name in ("time_to_first_token", "time_per_output_token", "request_duration")
)
TOKENS, REQUESTS = "gen_ai_client_token_usage_total", "hearth_gateway_requests_total"
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "hi"}]},
    COMPLETIONS: {"prompt": "hi"},
    RESPONSES: {"input": "hi"},
    MESSAGES: {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 500},
}
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def figures(gateway: Gateway) -> Series:
    answer = httpx.get(f"{gateway.url}/metrics", trust_env=False)
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def growth(gateway: Gateway, act: Callable[[], object]) -> dict[str, float]:
    """Return by how much figures grew: "NAME" -> sum, and "NAME LABEL=VALUE" for each label.

    A request is recorded when it has ended, a moment after its answer: wait until one is.
    """
    before = figures(gateway)
    act()
    end = time.monotonic() + 30
    while True:
        grown: dict[str, float] = {}
        for (name, labels), value in figures(gateway).items():
            more = value - before.get((name, labels), 0)
            for key in (name, *(f"{name} {label}={of}" for label, of in labels)):
                grown[key] = grown.get(key, 0) + more
        if grown.get(REQUESTS):
            return grown
        assert time.monotonic() < end, "nothing was recorded"
        time.sleep(0.02)


def recorded(grown: dict[str, float], name: str, **labels: str) -> list[float]:
    return [grown.get(f"{name} {key}={value}", 0) for key, value in labels.items()]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", BODIES)
def test_an_answer_is_in_all_figures(
    gateway: Gateway, owner: httpx.Client, path: str, mode: str
) -> None:
    def ask() -> None:
        body = {"model": "fast", **BODIES[path], "stream": mode == "streamed"}
        answer = owner.post(path, json=body)
        assert answer.status_code == 200
        assert answer.text

    grown = growth(gateway, ask)
    models = {"gen_ai_request_model": "fast", "gen_ai_response_model": "good"}
    labels = {**models, "hearth_consumer": "owner"}
    for name in (FIRST, TOKEN, WHOLE):
        assert recorded(grown, name.format("count"), **labels) == [1, 1, 1]
    assert 0 < grown[FIRST.format("sum")] <= grown[WHOLE.format("sum")]
    ended = {**labels, "outcome": "done", "hearth_cloud": "false"}
    assert recorded(grown, REQUESTS, **ended) == [1] * 5
    # The server of responses counts one token read.
    read = 1 if path == RESPONSES else 3
    assert recorded(grown, TOKENS, **labels, hearth_cloud="false") == [read + 4] * 4
    assert grown[f"{TOKENS} gen_ai_token_type=input"] == read
    assert grown[f"{TOKENS} gen_ai_token_type=output"] == 4


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_a_stream_has_no_usage_that_it_did_not_ask_for(owner: httpx.Client, path: str) -> None:
    body = {"model": "fast", **BODIES[path], "stream": True}
    unasked = owner.post(path, json=body).text
    assert "usage" not in unasked
    # Nor the piece that it comes in, which would follow the end.
    last = [line for line in unasked.splitlines() if line.startswith("data: {")][-1]
    assert json.loads(last[5:])["choices"][0]["finish_reason"] == "stop"
    body["stream_options"] = {"include_usage": True}
    events = [
        json.loads(line[5:])
        for line in owner.post(path, json=body).text.splitlines()
        if line.startswith("data: {")
    ]
    assert [event["usage"]["total_tokens"] for event in events if event.get("usage")] == [7]


def test_thoughts_are_first_tokens(gateway: Gateway, owner: httpx.Client) -> None:
    grown = growth(gateway, lambda: chat(owner, "ponders", "streamed"))
    # It thinks for more than a second before it writes.
    assert grown[WHOLE.format("sum")] - grown[FIRST.format("sum")] > 1


def test_embeddings_have_no_first_token(gateway: Gateway, owner: httpx.Client) -> None:
    body = {"model": "embed", "input": ["a", "b"]}
    grown = growth(gateway, lambda: owner.post("/v1/embeddings", json=body))
    assert grown[f"{TOKENS} gen_ai_token_type=input"] == 1
    assert grown[f"{TOKENS} gen_ai_token_type=output"] == 0
    assert recorded(grown, WHOLE.format("count"), gen_ai_response_model="vectors") == [1]
    assert grown[FIRST.format("count")] == 0


def test_recordings_are_counted(gateway: Gateway, owner: httpx.Client) -> None:
    def ask() -> None:
        form = {"model": "hear"}
        files = {"file": ("a.wav", b"RIFF")}
        assert owner.post("/v1/audio/transcriptions", data=form, files=files).status_code == 200

    grown = growth(gateway, ask)
    assert recorded(grown, REQUESTS, gen_ai_request_model="hear", outcome="done") == [1, 1]
    assert grown[WHOLE.format("count")] == 1
    assert (grown[FIRST.format("count")], grown[TOKENS]) == (0, 0)


def test_a_model_that_no_one_knows_is_other(gateway: Gateway, owner: httpx.Client) -> None:
    grown = growth(gateway, lambda: chat(owner, "strange"))
    assert recorded(grown, FIRST.format("count"), gen_ai_response_model="other") == [1]


@pytest.mark.parametrize(
    ("model", "end"), [("away", ("away", "cloud", 7)), ("hybrid", ("hybrid", "good", 0))]
)
def test_what_left_the_house_is_marked(
    gateway: Gateway, owner: httpx.Client, model: str, end: tuple[str, str, int]
) -> None:
    """A member outside that fails was called as well; its tokens are not known."""
    name, member, tokens = end
    grown = growth(gateway, lambda: chat(owner, model, "streamed"))
    labels = {"gen_ai_request_model": name, "gen_ai_response_model": member}
    labels |= {"hearth_consumer": "owner", "hearth_cloud": "true"}
    assert recorded(grown, REQUESTS, **labels) == [1] * 4
    assert grown[f"{TOKENS} hearth_cloud=true"] == tokens


def test_the_first_request_to_the_cloud_is_an_increase(gateway: Gateway) -> None:
    """Prometheus sees none where a counter appears with a 1."""
    labels = {"gen_ai_request_model": "away", "gen_ai_response_model": "cloud"}
    labels |= {"hearth_consumer": "owner", "hearth_cloud": "true"}
    found = figures(gateway)
    assert (REQUESTS, frozenset({**labels, "outcome": "done"}.items())) in found
    for kind in ("input", "output"):
        assert (TOKENS, frozenset({**labels, "gen_ai_token_type": kind}.items())) in found
    # Also where the one outside may fail, and another answers.
    labels |= {"gen_ai_request_model": "hybrid", "gen_ai_response_model": "good"}
    assert (REQUESTS, frozenset({**labels, "outcome": "done"}.items())) in found
    inside = {"gen_ai_request_model": "fast", "gen_ai_response_model": "good"}
    assert (REQUESTS, frozenset({**labels, **inside, "outcome": "done"}.items())) not in found


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ("503", "failed"),
        ("400", "refused"),
        ("429", "busy"),
        ("mute", "late"),
        ("cut", "failed"),
        ("endless", "late"),
    ],
)
def test_a_first_request_to_the_cloud_that_fails_is_an_increase(
    gateway: Gateway, owner: httpx.Client, fault: str, outcome: str
) -> None:
    """Or the page would show that nothing has left the house."""
    before = figures(gateway)
    growth(gateway, lambda: chat(owner, f"away-{fault}", "streamed"))
    grown = {
        dict(labels)["outcome"]: (name, labels) in before
        for (name, labels), value in figures(gateway).items()
        if name == REQUESTS and value > before.get((name, labels), 0)
    }
    assert grown == {outcome: True}


def test_a_broken_answer_counts_what_arrived(gateway: Gateway, owner: httpx.Client) -> None:
    grown = growth(gateway, lambda: chat(owner, "cut", "streamed"))
    assert recorded(grown, REQUESTS, outcome="failed") == [1]
    assert grown[f"{TOKENS} gen_ai_token_type=output"] == 1
    # About as many as the request has letters for.
    assert grown[f"{TOKENS} gen_ai_token_type=input"] == 1
    assert (grown[FIRST.format("count")], grown[WHOLE.format("count")]) == (1, 0)


def test_a_client_that_disconnects_is_no_failure(
    gateway: Gateway, owner: httpx.Client, upstream: Upstream
) -> None:
    body = {"model": "unending", **BODIES[CHAT]}
    seen = len(upstream.requests_for("endless"))

    def arrived() -> bool:
        return len(upstream.requests_for("endless")) > seen

    request = owner.build_request("POST", CHAT, json=body)
    grown = growth(gateway, lambda: disconnect(request, arrived))
    assert recorded(grown, REQUESTS, outcome="left", gen_ai_request_model="unending") == [1, 1]


def test_late_answers_have_an_outcome_of_their_own(gateway: Gateway, owner: httpx.Client) -> None:
    grown = growth(gateway, lambda: chat(owner, "forever", "streamed"))
    assert recorded(grown, REQUESTS, outcome="late") == [1]


def test_what_callers_write_makes_no_series(gateway: Gateway, owner: httpx.Client) -> None:
    def ask() -> None:
        for number in range(40):
            assert chat(owner, f"made-up-{number}").status == 404
            headers = {"authorization": f"Bearer made-up-{number}"}
            url = f"{gateway.url}/made-up-{number}"
            assert httpx.get(url, headers=headers, trust_env=False).status_code == 404

    growth(gateway, ask)
    text = httpx.get(f"{gateway.url}/metrics", trust_env=False).text
    assert "made-up" not in text
    grown = growth(gateway, ask)
    other = {"gen_ai_request_model": "other", "outcome": "refused"}
    assert recorded(grown, REQUESTS, **other) == [80, 80]
    assert grown[f"{REQUESTS} hearth_consumer=owner"] == 40


def test_the_canary_is_in_no_figure(gateway: Gateway, owner: httpx.Client) -> None:
    def ask() -> None:
        mark = {"x-hearth-canary": "1"}
        assert owner.post(CHAT, json={"model": "fast", **BODIES[CHAT]}, headers=mark).is_success
        assert chat(owner, "plain").status == 200

    grown = growth(gateway, ask)
    for name in (REQUESTS, FIRST.format("count")):
        by_model = {
            value: grown.get(f"{name} gen_ai_request_model={value}") or 0
            for value in ("fast", "plain")
        }
        assert by_model == {"fast": 0, "plain": 1}
    assert grown[TOKENS] == 7


def test_lists_and_health_are_not_counted(gateway: Gateway, owner: httpx.Client) -> None:
    def ask() -> None:
        owner.get("/v1/models")
        owner.get("/health/readiness")
        chat(owner, "fast")

    assert growth(gateway, ask)[REQUESTS] == 1


def test_the_figures_of_the_process_have_their_usual_names(gateway: Gateway) -> None:
    found = figures(gateway)
    assert found["process_resident_memory_bytes", frozenset()] > 1e7
    assert found["process_cpu_seconds_total", frozenset()] > 0
