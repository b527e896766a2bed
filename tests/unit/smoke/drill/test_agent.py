"""Each member of a drill fails as its fault is named."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from hearth.smoke.drill.agent import CUT, DRIP, FAULTS, HANG, REFUSED, WELL, DrillAgent, Member
from hearth.smoke.drill.cases import PATHS, read_answer, small_request

# Not the address of a drill, which another test starts beside this one.
HOST = "127.0.0.7"
KINDS = list(PATHS)


async def broken_answer(
    kind: str, mode: str, fault: str, tmp_path: Path, idle_s: float = 60.0
) -> dict[str, Any]:
    """Send a request to a broken member itself, as the agent does to the gateway."""
    member = Member("m", HOST, 4101, None, kind)
    agent = DrillAgent([member], (HOST, 4101))
    control = tmp_path / fault
    await agent.set_faults({})
    within_s = 0.5 if fault in (HANG, DRIP) else 5.0
    step = {"faults": {"m": fault}, "requests": [small_request("m", kind, mode, within_s)]}
    serving = asyncio.create_task(agent.serve(control, idle_s))
    # Until it listens: nothing in between waits.
    await asyncio.sleep(0.01)
    reader, writer = await asyncio.open_unix_connection(control)
    writer.write(json.dumps({"steps": [step], "key": "k"}).encode() + b"\n")
    (done,) = json.loads(await reader.read())["steps"]
    writer.close()
    if idle_s > 1:
        serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    await member.set_fault(REFUSED)
    assert done["calls"] == {"m": int(fault != REFUSED)}
    return dict(done["answers"][0])


def modes(kind: str) -> list[str]:
    return ["plain"] if kind == "embed" else ["plain", "streamed"]


@pytest.mark.parametrize(("kind", "mode"), [(k, mode) for k in KINDS for mode in modes(k)])
def test_a_well_member_answers_and_a_broken_one_never_does(
    kind: str, mode: str, tmp_path: Path
) -> None:
    assert read_answer(asyncio.run(broken_answer(kind, mode, WELL, tmp_path))).good
    for fault in FAULTS:
        if fault not in (HANG, DRIP):
            assert not read_answer(asyncio.run(broken_answer(kind, mode, fault, tmp_path))).good, (
                fault
            )


def test_the_own_time_of_a_real_member_is_measured(tmp_path: Path) -> None:
    """The second member here is real to the first one: it stands behind it."""

    async def passed_on() -> dict[str, Any]:
        behind = Member("behind", HOST, 4102, None, "chat")
        before = Member("before", HOST, 4101, f"http://{HOST}:4102/v1", "chat")
        agent = DrillAgent([behind, before], (HOST, 4101))
        await agent.set_faults({})
        step = {"faults": {}, "requests": [small_request("before", "chat", "streamed", 5.0)]}
        done = await agent.step(step, "k")
        for member in (behind, before):
            await member.set_fault(REFUSED)
        return done

    done = asyncio.run(passed_on())
    assert read_answer(done["answers"][0]).good
    assert done["calls"] == {"behind": 1, "before": 1}
    first_s, whole_s = done["took_s"]["before"]
    assert 0 < first_s <= whole_s
    assert done["took_s"]["behind"] == [0.0, 0.0]


def test_it_ends_without_orders_but_not_while_it_carries_one_out(tmp_path: Path) -> None:
    answer = asyncio.run(broken_answer("chat", "plain", HANG, tmp_path, idle_s=0.4))
    assert answer["trouble"] == "TimeoutError"


@pytest.mark.parametrize("fault", [HANG, DRIP])
def test_silence_lasts(fault: str, tmp_path: Path) -> None:
    answer = asyncio.run(broken_answer("chat", "plain", HANG, tmp_path))
    assert answer["trouble"] == "TimeoutError"


def test_a_cut_stream_looks_like_one_that_ended(tmp_path: Path) -> None:
    answer = read_answer(asyncio.run(broken_answer("chat", "streamed", CUT, tmp_path)))
    # Nothing is wrong with the connection: only who reads the words sees that the end is missing.
    assert (answer.status, answer.finish, answer.trouble) == (200, "", "")
