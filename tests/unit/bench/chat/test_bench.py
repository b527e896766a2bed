"""The comparison of the chat with the gateway, with answers made up by the test."""

from __future__ import annotations

import asyncio
import io
import json
from dataclasses import asdict, dataclass, field

import pytest
from rich.console import Console

from hearth.bench.chat import ChatProcess, ChatReport, bench_chat, chat_view
from hearth.bench.turns import WARM_UPS, User
from hearth.clients.llm import Sample

UNSEEN = ChatProcess()


@dataclass
class Fake:
    """An endpoint whose first words come after the times given, in turn."""

    name: str
    first_ms: list[float]
    log: list[str]
    asked: list[str] = field(default_factory=list)
    broken: frozenset[int] = frozenset()

    async def __call__(self, prompt: str, max_tokens: int) -> Sample:
        number = len(self.asked)
        self.asked.append(prompt)
        self.log.append(self.name)
        first = self.first_ms[number % len(self.first_ms)]
        error = "HTTP 500" if number in self.broken else ""
        answer_ms = None if error else first
        return Sample(self.name, answer_ms, first + 90, 10, None, None, error, answer_ms)


def crowd(*pairs: tuple[list[float], list[float]]) -> tuple[list[User], list[str]]:
    log: list[str] = []
    return [(Fake("direct", a, log), Fake("chat", b, log)) for a, b in pairs], log


async def bench(users: list[User], rounds: int, process: ChatProcess = UNSEEN) -> ChatReport:
    return await bench_chat("fast", users, rounds=rounds, apart_s=0, process=process)


def shown(report: ChatReport) -> str:
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(chat_view(report))
    return console.export_text()


async def test_what_the_chat_adds_is_of_pairs_by_their_order() -> None:
    # Directly the second one waits longest, in the chat the first one does.
    users, _ = crowd(([10.0], [80.0]), ([50.0], [40.0]))
    report = await bench(users, 10)
    assert report.calls.added_first_ms is not None
    assert report.calls.added_ms is not None
    assert (report.calls.added_first_ms.pairs, report.calls.added_first_ms.median) == (20, 30)
    assert (report.calls.added_ms.median, report.calls.added_ms.p95) == (30, 30)
    assert report.fine
    assert "The chat adds 30.0 ms" in shown(report)


async def test_each_path_gets_all_requests_and_neither_is_always_first() -> None:
    users, log = crowd(([1.0], [2.0]), ([1.0], [2.0]))
    await bench(users, 2)
    counted = log[2 * 2 * WARM_UPS :]
    assert counted == [*("direct",) * 2, *("chat",) * 2, *("chat",) * 2, *("direct",) * 2]


async def test_the_first_rounds_are_not_counted() -> None:
    cold = [9999.0] * WARM_UPS
    users, _ = crowd((cold + [10.0] * 50, cold + [20.0] * 50))
    report = await bench(users, 10)
    first_ms = report.calls.through["first_ms"]
    assert first_ms is not None
    assert (report.calls.through.calls, first_ms.p95) == (10, 20)


@pytest.mark.parametrize(
    ("chat", "verdicts"),
    [
        ([60.0], ["reached", "reached"]),
        ([61.0], ["not reached", "reached"]),
        ([20.0] * 8 + [200.0] * 2, ["reached", "not reached"]),
    ],
)
async def test_the_requested_cases_are_judged(chat: list[float], verdicts: list[str]) -> None:
    users, _ = crowd(([0.0], [0.0] * WARM_UPS + chat * 20))
    report = await bench(users, 20)
    assert [row.verdict for row in report.ratios] == [*verdicts, "not measured"]
    assert report.fine == ("not reached" not in verdicts)


async def test_a_start_is_judged_where_there_was_one_and_memory_is_reported() -> None:
    users, _ = crowd(([1.0], [2.0]))
    slow = await bench(users, 2, ChatProcess(400 * 2**20, 20.5))
    assert (slow.ratios[-1].verdict, slow.fine) == ("not reached", False)
    assert "Its process has 400 MiB of memory." in shown(slow)
    assert (await bench(users, 2, ChatProcess(1, 19.5))).ratios[-1].verdict == "reached"


async def test_who_failed_has_no_partner_and_is_named() -> None:
    users, _ = crowd(([1.0], [2.0]), ([1.0], [2.0]))
    chat = users[1][1]
    assert isinstance(chat, Fake)
    chat.broken = frozenset({WARM_UPS, WARM_UPS + 1})
    report = await bench(users, 5)
    assert (report.calls.through.failed, report.calls.through.errors) == (2, ("HTTP 500",))
    assert report.calls.added_first_ms is not None
    assert (report.calls.added_first_ms.pairs, report.fine) == (8, False)
    assert "HTTP 500" in shown(report)


async def test_a_run_without_an_answer_is_reported() -> None:
    users, _ = crowd(([1.0], [2.0]))
    chat = users[0][1]
    assert isinstance(chat, Fake)
    chat.broken = frozenset(range(100))
    report = await bench(users, 2)
    assert [row.verdict for row in report.ratios] == ["not measured"] * 3
    assert "no pair of calls was answered" in shown(report)
    assert not report.fine


async def test_at_its_deadline_it_reports_what_it_has() -> None:
    users, _ = crowd(([1.0], [2.0]))
    chat = users[0][1]
    assert isinstance(chat, Fake)

    async def stuck(prompt: str, max_tokens: int) -> Sample:
        if len(chat.asked) >= WARM_UPS + 3:
            await asyncio.Event().wait()
        return await chat(prompt, max_tokens)

    one = [(users[0][0], stuck)]
    report = await bench_chat("fast", one, rounds=20, apart_s=0, timeout_s=0.1)
    assert report.calls.stopped == "ended after 0.1 s with 3 of 20 rounds"
    assert not report.fine


async def test_users_start_at_their_own_times_the_same_on_both_paths(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("hearth.bench.turns.sleep", sleep)
    users, _ = crowd(([1.0], [2.0]), ([1.0], [2.0]))
    await bench_chat("fast", users, rounds=1, apart_s=3)
    by_way = [tuple(waited[at : at + 2]) for at in range(0, len(waited), 2)]
    assert [by_way[at] == by_way[at + 1] for at in range(0, len(by_way), 2)] == [True] * 3
    assert len({moment for pair in by_way for moment in pair}) == len(waited) // 2
    assert all(0 <= moment <= 3 for moment in waited)


async def test_all_of_it_is_json() -> None:
    users, _ = crowd(([1.0], [2.0]))
    document = json.loads(json.dumps(asdict(await bench(users, 2))))
    assert (document["users"], document["apart_s"]) == (1, 0)
    assert document["ratios"][0]["value"] == 1
