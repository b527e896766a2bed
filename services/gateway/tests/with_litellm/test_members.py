"""Who answers: the next member after each fault, and what the caller and the log are told."""

from __future__ import annotations

import time

import httpx
import pytest

from .conftest import Gateway
from .house import FAULTS, MODES, QUICK_S, WAITED, WAITED_S
from .talk import chat
from .upstream import Upstream


@pytest.mark.parametrize("mode", MODES)
def test_the_answer_names_the_member(owner: httpx.Client, gateway: Gateway, mode: str) -> None:
    seen = len(gateway.lines())
    heard = chat(owner, "fast", mode)
    assert (heard.member, heard.models) == ("good", {"good"})
    assert (heard.text, heard.end, heard.done) == ("one two three four", "stop", True)
    line = gateway.line_after(seen, "fast")
    assert (line["member"], line["status"], line["tried"]) == ("good", "200", "-")
    assert 0 < int(line["first_ms"]) <= int(line["total_ms"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_next_member_answers(
    owner: httpx.Client, gateway: Gateway, upstream: Upstream, fault: str, mode: str
) -> None:
    first = f"{fault}-{mode}"
    before = len(upstream.asked(first)), len(upstream.asked("good"))
    seen = len(gateway.lines())
    start = time.monotonic()
    heard = chat(owner, f"after-{first}", mode)
    took_s = time.monotonic() - start
    assert (heard.status, heard.member, heard.models) == (200, "good", {"good"})
    assert (heard.text, heard.end) == ("one two three four", "stop")
    # One call each: a member that failed is not asked again within a request.
    assert len(upstream.asked(first)) == before[0] + (fault != "refused")
    assert len(upstream.asked("good")) == before[1] + 1
    # Who says nothing is waited for; everything else must not wait at all.
    assert took_s > WAITED_S * 0.9 if fault in WAITED else took_s < QUICK_S
    line = gateway.line_after(seen, f"after-{first}")
    assert line["member"] == "good"
    assert line["tried"].startswith(f"{first}:")


@pytest.mark.parametrize("mode", MODES)
def test_a_member_that_was_slow_rests(owner: httpx.Client, upstream: Upstream, mode: str) -> None:
    slow = f"mute-rests-{mode}"
    assert chat(owner, f"after-{slow}", mode).member == "good"
    assert len(upstream.asked(slow)) == 1
    for _ in range(3):
        start = time.monotonic()
        assert chat(owner, f"after-{slow}", mode).member == "good"
        took_s = time.monotonic() - start
        assert len(upstream.asked(slow)) == 1
        # Thrice at most: a machine that looks elsewhere for a moment waits for no member.
        if took_s < WAITED_S * 0.9:
            break
    assert took_s < WAITED_S * 0.9


@pytest.mark.parametrize("fault", ["500-rests-plain", "500-rests-streamed", "cut-rests-streamed"])
def test_a_member_that_failed_is_left_alone_for_a_moment(
    owner: httpx.Client, upstream: Upstream, fault: str
) -> None:
    mode = fault.rpartition("-")[2]
    chat(owner, f"after-{fault}", mode)
    # A caller who is gone with the last word has seen the next member answer, too.
    assert chat(owner, f"after-{fault}", mode).member == "good"
    assert len(upstream.asked(fault)) == 1


def test_numbers_are_asked_for_once_of_each_member(owner: httpx.Client, upstream: Upstream) -> None:
    start = time.monotonic()
    answer = owner.post("/v1/embeddings", json={"model": "numbers", "input": "one"})
    assert (answer.status_code, answer.headers["x-hearth-model"]) == (200, "vectors")
    # By itself LiteLLM asks twice more, and waits in between.
    assert len(upstream.asked("500-vectors")) == 1
    assert time.monotonic() - start < QUICK_S


@pytest.mark.parametrize("mode", MODES)
def test_when_all_members_fail_one_error_names_them(owner: httpx.Client, mode: str) -> None:
    for _ in range(3):
        heard = chat(owner, "broken", mode)
        assert heard.error is not None
        # Thrice at most: where a machine stands still, who fails at once gave no answer either.
        if "500-plain (gave no answer" not in heard.error["message"]:
            break
    assert heard.status == 502
    assert heard.error is not None
    for said in ("broken has no answer", "500-plain (fault 500)", "mute-plain (gave no answer"):
        assert said in heard.error["message"]


@pytest.mark.parametrize("fault", ["cut", "crash"])
def test_a_stream_that_breaks_off_is_no_whole_answer(owner: httpx.Client, fault: str) -> None:
    said = f"{fault} broke off in the middle of its answer; ask again"
    heard = chat(owner, fault, "streamed")
    assert heard.text == "one "
    assert heard.error is not None
    assert (heard.error["code"], heard.error["message"]) == ("broken_off", said)
    assert (heard.end, heard.done) == (None, False)
    heard = chat(owner, fault, "plain")
    assert heard.status == 502
    assert heard.error is not None
    assert (heard.error["code"], heard.error["message"]) == ("broken_off", said)


def test_a_bad_request_stays_bad(owner: httpx.Client, upstream: Upstream) -> None:
    before = len(upstream.calls)
    answer = owner.post("/v1/chat/completions", json={"model": "fast"})
    assert answer.status_code == 400
    assert "messages" in answer.json()["error"]["message"]
    assert len(upstream.calls) == before


def test_when_all_fail_the_last_one_is_heard(owner: httpx.Client) -> None:
    heard = chat(owner, "500-plain")
    assert heard.status == 500
    assert heard.error is not None
    # The member's words, and none of LiteLLM's around them.
    assert heard.error["message"] == "fault 500"


@pytest.mark.parametrize("mode", MODES)
def test_who_is_not_there_is_named(owner: httpx.Client, mode: str) -> None:
    heard = chat(owner, "refused-plain", mode)
    assert heard.status == 500
    assert heard.error is not None
    assert heard.error["message"] == "refused-plain cannot be reached; try again in a moment"
