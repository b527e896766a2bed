"""The next member after each fault, and the errors for the client and the log."""

from __future__ import annotations

import time

import httpx
import pytest

from .chats import chat
from .conftest import Gateway
from .house import FAULTS, MODES, QUICK_S, SILENT_FAULTS, SILENT_TIMEOUT_S
from .upstream import Upstream


@pytest.mark.parametrize("mode", MODES)
def test_the_answer_names_the_member(owner: httpx.Client, gateway: Gateway, mode: str) -> None:
    seen = len(gateway.lines())
    answer = chat(owner, "fast", mode)
    assert (answer.member, answer.models) == ("good", {"good"})
    assert (answer.text, answer.end, answer.done) == ("one two three four", "stop", True)
    line = gateway.line_after(seen, "fast")
    assert (line["member"], line["status"], line["tried"]) == ("good", "200", "-")
    assert 0 < int(line["first_ms"]) <= int(line["total_ms"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_next_member_answers(
    owner: httpx.Client, gateway: Gateway, upstream: Upstream, fault: str, mode: str
) -> None:
    first = f"{fault}-{mode}"
    before = len(upstream.requests_for(first)), len(upstream.requests_for("good"))
    seen = len(gateway.lines())
    start = time.monotonic()
    answer = chat(owner, f"after-{first}", mode)
    took_s = time.monotonic() - start
    assert (answer.status, answer.member, answer.models) == (200, "good", {"good"})
    assert (answer.text, answer.end) == ("one two three four", "stop")
    # One call each: a failed member is not retried within a request.
    assert len(upstream.requests_for(first)) == before[0] + (fault != "refused")
    assert len(upstream.requests_for("good")) == before[1] + 1
    # Only a silent member may take time; all other faults must not wait.
    assert took_s > SILENT_TIMEOUT_S * 0.9 if fault in SILENT_FAULTS else took_s < QUICK_S
    line = gateway.line_after(seen, f"after-{first}")
    assert line["member"] == "good"
    assert line["tried"].startswith(f"{first}:")


@pytest.mark.parametrize("mode", MODES)
def test_a_member_without_room_is_not_called_and_the_next_one_answers(
    owner: httpx.Client, gateway: Gateway, upstream: Upstream, mode: str
) -> None:
    for _ in range(2):
        seen = len(gateway.lines())
        answer = chat(owner, "roomy", mode)
        assert (answer.status, answer.member) == (200, "good")
        # It does not rest: the next request is refused for the same reason, not for a cooldown.
        assert gateway.line_after(seen, "roomy")["tried"] == "crowded:507"
    assert upstream.requests_for("crowded") == []


def test_a_model_without_room_says_why(owner: httpx.Client) -> None:
    body = {"model": "crowded", "messages": [{"role": "user", "content": "hi"}]}
    answer = owner.post("/v1/chat/completions", json=body)
    assert answer.status_code == 507
    error = answer.json()["error"]
    assert error["code"] == "no_memory"
    assert error["message"] == "crowded is not loaded: it needs 9.0 GiB; speech leaves 4.0 GiB"


@pytest.mark.parametrize("mode", MODES)
def test_a_member_that_was_slow_rests(owner: httpx.Client, upstream: Upstream, mode: str) -> None:
    slow = f"mute-rests-{mode}"
    assert chat(owner, f"after-{slow}", mode).member == "good"
    assert len(upstream.requests_for(slow)) == 1
    for _ in range(3):
        start = time.monotonic()
        assert chat(owner, f"after-{slow}", mode).member == "good"
        took_s = time.monotonic() - start
        assert len(upstream.requests_for(slow)) == 1
        # At most three tries: on a busy machine the other member may be late, too.
        if took_s < SILENT_TIMEOUT_S * 0.9:
            break
    assert took_s < SILENT_TIMEOUT_S * 0.9


@pytest.mark.parametrize("fault", ["500-rests-plain", "500-rests-streamed", "cut-rests-streamed"])
def test_a_member_that_failed_rests(owner: httpx.Client, upstream: Upstream, fault: str) -> None:
    mode = fault.rpartition("-")[2]
    chat(owner, f"after-{fault}", mode)
    # The client got the whole answer from the next member.
    assert chat(owner, f"after-{fault}", mode).member == "good"
    assert len(upstream.requests_for(fault)) == 1


def test_embeddings_are_requested_once_from_each_member(
    owner: httpx.Client, upstream: Upstream
) -> None:
    start = time.monotonic()
    answer = owner.post("/v1/embeddings", json={"model": "numbers", "input": "one"})
    assert (answer.status_code, answer.headers["x-hearth-model"]) == (200, "vectors")
    # By default LiteLLM retries twice, with a delay.
    assert len(upstream.requests_for("500-vectors")) == 1
    assert time.monotonic() - start < QUICK_S


@pytest.mark.parametrize("mode", MODES)
def test_when_all_members_fail_one_error_names_them(owner: httpx.Client, mode: str) -> None:
    for _ in range(3):
        answer = chat(owner, "broken", mode)
        assert answer.error is not None
        # At most three tries: on a busy machine, the failure may be late and count as no answer.
        if "500-plain (gave no answer" not in answer.error["message"]:
            break
    assert answer.status == 502
    assert answer.error is not None
    for part in ("broken has no answer", "500-plain (fault 500)", "mute-plain (gave no answer"):
        assert part in answer.error["message"]


@pytest.mark.parametrize("fault", ["cut", "crash"])
def test_an_interrupted_stream_is_an_error(owner: httpx.Client, fault: str) -> None:
    message = f"{fault} broke off in the middle of its answer; ask again"
    answer = chat(owner, fault, "streamed")
    assert answer.text == "one "
    assert answer.error is not None
    assert (answer.error["code"], answer.error["message"]) == ("broken_off", message)
    assert (answer.end, answer.done) == (None, False)
    answer = chat(owner, fault, "plain")
    assert answer.status == 502
    assert answer.error is not None
    assert (answer.error["code"], answer.error["message"]) == ("broken_off", message)


def test_a_bad_request_is_not_retried(owner: httpx.Client, upstream: Upstream) -> None:
    before = len(upstream.calls)
    answer = owner.post("/v1/chat/completions", json={"model": "fast"})
    assert answer.status_code == 400
    assert "messages" in answer.json()["error"]["message"]
    assert len(upstream.calls) == before


def test_the_last_error_is_forwarded_when_all_members_fail(owner: httpx.Client) -> None:
    answer = chat(owner, "500-plain")
    assert answer.status == 500
    assert answer.error is not None
    # The member's message, without LiteLLM's text around it.
    assert answer.error["message"] == "fault 500"


@pytest.mark.parametrize("mode", MODES)
def test_an_unreachable_member_is_named(owner: httpx.Client, mode: str) -> None:
    answer = chat(owner, "refused-plain", mode)
    assert answer.status == 500
    assert answer.error is not None
    assert answer.error["message"] == "refused-plain cannot be reached; try again in a moment"
