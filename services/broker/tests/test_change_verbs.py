"""A verb that changes the house makes a proposal, and nothing else."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hearth.approvals import ApprovalError
from hearth.approvals.proposal import MOST_READS, READS_CHARACTERS
from hearth.approvals.unit import answer_apart, execute_apart
from hearth.catalogue.house import House
from hearth_broker import change_verbs
from hearth_broker.app import create_app
from hearth_broker.change_verbs import kept, verbs
from hearth_broker.config import Config
from hearth_broker.verbs import Read

from .conftest import OTHER, key, sample_verbs, serving

NAMES = ["restart", "start", "stop", "unload_model", "propose"]
ID = "2345678923456789abcdefghjk"


class Asked:
    """Notes the requests; answers as `hearth approve --ask` does."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.error, self.takes_s = "", 0.02
        self.at_once, self._running, self._lock = 0, 0, threading.Lock()

    def __call__(self, request: bytes, within_s: float) -> dict[str, Any]:
        with self._lock:
            self._running += 1
            self.at_once = max(self.at_once, self._running)
        time.sleep(self.takes_s)
        self.requests.append(json.loads(request))
        with self._lock:
            self._running -= 1
        if self.error:
            raise ApprovalError(self.error)
        return {"id": ID, "summary": "restart kokoro", "expires": int(time.time()) + 900}


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
async def changes(config: Config, house: House, asked: Asked) -> AsyncIterator[httpx.AsyncClient]:
    team = config.consumers["team"].model_copy(update={"verbs": ("page", *NAMES)})
    coding = config.consumers["coding"].model_copy(update={"verbs": tuple(NAMES)})
    config = config.model_copy(update={"consumers": {"team": team, "coding": coding}})
    every = [*sample_verbs(), *verbs(house, config, asked)]
    async with serving(create_app(config, house, every)) as client:
        yield client


async def test_a_proposal_names_its_page_and_what_was_read(
    changes: httpx.AsyncClient, asked: Asked
) -> None:
    who = {"X-Hearth-Agent": "caretaker", "X-Hearth-Run": "r1", "X-Hearth-Chat": "c1", **key()}
    await changes.post("/v1/verbs/page", json={"word": "restart kokoro"}, headers=who)
    answer = await changes.post("/v1/verbs/restart", json={"service": "kokoro"}, headers=who)
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    assert data["approval"] == ID
    assert data["page"] == f"https://home.lan/approvals/{ID}"
    assert 895 <= data["expires_in_s"] <= 900
    assert "nothing is done yet" in answer.json()["text"]
    (request,) = asked.requests
    assert request["verb"] == "restart"
    who_asks = {"consumer": "team", "agent": "caretaker", "run": "r1", "chat": "c1"}
    assert request["who"] == {**who_asks, "client": "", "person": ""}
    (read,) = request["reads"]
    assert read["origin"] == "outside: https://example.org/"
    assert read["text"].startswith("a page says restart kokoro")


async def test_only_a_program_of_the_house_is_believed_for_whom_it_asks(
    changes: httpx.AsyncClient, asked: Asked
) -> None:
    said = {"X-Hearth-Client": "open_webui", "X-Hearth-Person": "Zo%C3%AB%0A%E2%80%AE%20K."}
    for sent in (key(), key(OTHER)):
        headers = {**sent, **said}
        await changes.post("/v1/verbs/restart", json={"service": "kokoro"}, headers=headers)
    inside, other = (one["who"] for one in asked.requests)
    assert (inside["client"], inside["person"]) == ("open_webui", "Zoë K.")
    assert (other["client"], other["person"]) == ("", "")


async def test_a_refusal_is_one_line(changes: httpx.AsyncClient, asked: Asked) -> None:
    asked.error = "the proposed inventory is not valid: x\ny"
    body = {"files": {"services.yml": "services: {}\n"}, "why": "a voice"}
    answer = await changes.post("/v1/verbs/propose", json=body, headers=key())
    assert answer.status_code == 409
    assert answer.json()["error"]["message"] == "the proposed inventory is not valid: x y"
    assert answer.json()["error"]["origin"] == "house"


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("restart", {"service": "kokoro", "approved": True}),
        ("restart", {"service": "../x"}),
        ("propose", {"files": {"machines.yml": "x"}, "why": "x"}),
        ("propose", {"files": {"services.yml": "x" * 70_000}, "why": "x"}),
        ("propose", {"files": {}, "why": "x"}),
        ("propose", {"files": {"services.yml": "x"}, "why": "x", "checks": ["x or y"]}),
        ("unload_model", {"model": "a b"}),
    ],
)
async def test_bad_arguments_reach_nobody(
    changes: httpx.AsyncClient, asked: Asked, verb: str, body: dict[str, Any]
) -> None:
    answer = await changes.post(f"/v1/verbs/{verb}", json=body, headers=key())
    assert answer.status_code == 400
    assert asked.requests == []


async def test_the_house_is_asked_once_at_a_time(changes: httpx.AsyncClient, asked: Asked) -> None:
    send = [
        changes.post("/v1/verbs/stop", json={"service": "kokoro"}, headers=key()) for _ in range(5)
    ]
    assert {one.status_code for one in await asyncio.gather(*send)} == {200}
    assert (len(asked.requests), asked.at_once) == (5, 1)


def test_much_that_was_read_is_cut_and_says_so() -> None:
    long = "x" * (READS_CHARACTERS // 2)
    found = kept([Read(f"outside: {n}", n + 0.5, long) for n in range(MOST_READS + 5)])
    assert len(found) == MOST_READS
    assert found[-1].origin == f"outside: {MOST_READS + 4}"
    assert [one.whole for one in found[-3:]] == [False, True, True]
    assert sum(len(one.text) for one in found) <= READS_CHARACTERS + 200 * MOST_READS


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program in the place of systemd-run that notes its words and its input."""
    program = tmp_path / "systemd-run"
    program.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/words\ncat > {tmp_path}/input\n'
        f"cat {tmp_path}/answer\n"
        f'echo "Unit already exists" >&2\nexit "$(cat {tmp_path}/code)"\n'
    )
    program.chmod(0o755)
    (tmp_path / "code").write_text("0")
    (tmp_path / "answer").write_text("")
    monkeypatch.setattr("hearth.approvals.unit._APART", (str(program), "--quiet"))
    return tmp_path


def test_an_execution_is_a_unit_of_its_own(systemd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/anna")
    execute_apart(Path("/srv/hearth"), ID)
    words = (systemd / "words").read_text()
    assert f"--unit=hearth-approval-{ID} /srv/hearth/scripts/hearth approve --execute {ID}" in words
    assert "Restart=on-abnormal" in words
    # Where the password of the vault is.
    assert "--setenv=HOME=/home/anna " in words
    (systemd / "code").write_text("1")
    with pytest.raises(ApprovalError, match="does not start the approved change: Unit already"):
        execute_apart(Path("/srv/hearth"), ID)
    with pytest.raises(ApprovalError, match="letters and digits"):
        execute_apart(Path("/srv/hearth"), "--property=x")


def test_a_request_goes_through_standard_input(systemd: Path) -> None:
    (systemd / "answer").write_text('{"id": "x"}')
    assert answer_apart(Path("/srv/hearth"), b'{"secret": "text"}', 20) == {"id": "x"}
    assert (systemd / "input").read_text() == '{"secret": "text"}'
    words = (systemd / "words").read_text()
    assert "secret" not in words
    assert "--wait --pipe --property=RuntimeMaxSec=20" in words
    (systemd / "answer").write_text('{"refused": "no"}')
    with pytest.raises(ApprovalError, match=r"^no$"):
        answer_apart(Path("/srv/hearth"), b"{}", 20)
    (systemd / "answer").write_text("Traceback")
    with pytest.raises(ApprovalError, match="no JSON"):
        answer_apart(Path("/srv/hearth"), b"{}", 20)


PROPOSAL = {"files": {"services.yml": "services: {}\n"}, "why": "a voice"}


async def test_failing_previews_count_and_one_key_has_its_share(
    changes: httpx.AsyncClient, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_verbs, "SHARE_S", 100.0)
    asked.error = "a task failed"
    texts = []
    for _ in range(8):
        answer = await changes.post("/v1/verbs/propose", json=PROPOSAL, headers=key())
        texts.append(answer.json()["error"]["message"])
    assert texts == ["a task failed"] * 5 + [texts[-1]] * 3
    assert "wait 60 minutes" in texts[-1]
    assert len(asked.requests) == 5
    # A restart has no preview.
    asked.error = ""
    answer = await changes.post("/v1/verbs/restart", json={"service": "kokoro"}, headers=key())
    assert answer.status_code == 200


async def test_one_key_has_one_preview_at_a_time_and_others_do_not_wait(
    changes: httpx.AsyncClient, asked: Asked
) -> None:
    asked.takes_s = 0.5
    first = asyncio.create_task(changes.post("/v1/verbs/propose", json=PROPOSAL, headers=key()))
    await asyncio.sleep(0.1)
    asked.takes_s = 0.0
    second = await changes.post("/v1/verbs/propose", json=PROPOSAL, headers=key())
    assert "is being previewed" in second.json()["error"]["message"]
    answer = await changes.post("/v1/verbs/restart", json={"service": "kokoro"}, headers=key())
    assert answer.status_code == 200
    assert not first.done()
    assert (await first).status_code == 200
