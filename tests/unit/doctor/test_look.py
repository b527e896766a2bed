"""The watcher tells a fault from one missed deadline: real programs hang, drip and die."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hearth import status
from hearth.catalogue import House, derive, load
from hearth.catalogue.house import Flow
from hearth.doctor import look
from hearth.doctor.look import Look, Reading, Steady, Units
from hearth.machine import outside, systemd
from hearth.machine.engine import EngineError
from hearth.status import Row
from tests.role_data import reference_house
from tests.unit.roles.router import KOKORO, LITELLM, OLLAMA, Router, router

INVENTORY = Path(__file__).parents[3] / "inventory"
ACTIVE = systemd.UnitState("active", "running", "success", 0)
FAILED = systemd.UnitState("failed", "failed", "oom-kill", 0)
# It answers as the file says: well, wrong, late, never, only the next time, or byte by byte.
SERVER = """
import http.server, pathlib, sys, time
mode = pathlib.Path(sys.argv[1])
class Program(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        how = mode.read_text()
        if how == "hangs once":
            mode.write_text("well")
        if how.startswith("hangs"):
            time.sleep(60)
        if how == "late":
            time.sleep(0.7)
        self.send_response(200)
        self.end_headers()
        if how == "drips":
            for _ in range(600):
                self.wfile.write(b".")
                time.sleep(0.05)
        self.wfile.write(b'{"status":"ok"}' if how in ("well", "late") else b"something")
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Program)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
"""


@dataclass
class Served:
    """A house with one service, and the real program behind it."""

    house: House
    process: subprocess.Popen[str]
    mode: Path
    units: list[systemd.UnitState]

    def look(self) -> Look:
        return Look(self.house)

    def signal(self, number: int, state: int) -> None:
        os.kill(self.process.pid, number)
        os.waitpid(self.process.pid, state)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    mode = tmp_path / "mode"
    mode.write_text("well")
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(mode)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout
            port = int(process.stdout.readline())
            house = derive(load(INVENTORY))
            kokoro = house.services["kokoro"]
            health = replace(kokoro.health, within_s=0.5)
            served = replace(kokoro, url=f"http://127.0.0.1:{port}", port=port, health=health)
            house = replace(house, services={"kokoro": served}, parts={}, flows=())
            units = [ACTIVE]
            monkeypatch.setattr(status, "read_unit", lambda *_: (units[0], ""))
            monkeypatch.setattr(
                status, "firewall", lambda: status.Row("firewall", "part", True, "up", 0)
            )
            monkeypatch.setattr(outside, "CGROUPS", tmp_path)
            # Every program here is young; what that means has a test of its own.
            monkeypatch.setattr(status, "_LOOP_S", 0)
            monkeypatch.setattr(status, "PATIENCE_S", 1.5)
            monkeypatch.setattr(look, "_UNIT_S", 0.0)
            group = tmp_path / "lxc.payload.kokoro/system.slice/kokoro.service"
            group.mkdir(parents=True)
            (group / "cgroup.procs").write_text(f"{process.pid}\n")
            yield Served(house, process, mode, units)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.kill()


async def looked(one: Look, times: int = 1) -> status.Row | None:
    """Look at the service so often, one look after the other; return the row that is shown."""
    (owner,) = one.house.services.values()
    for _ in range(times):
        await one._look_at(owner)
    return one._programs["kokoro"].seen


async def well(one: Look) -> status.Row:
    """Return the row after a good look; a machine that stalls may miss a short deadline."""
    steady = one._programs["kokoro"]
    for _ in range(20):
        row = await looked(one)
        if row is not None and not steady.bad_looks:
            return row
    raise AssertionError(steady)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what happens beside this test."""
    for _ in range(3000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came true")


async def test_a_healthy_service_is_up_after_one_look(served: Served) -> None:
    row = await well(served.look())
    assert (row.up, row.text, row.state) == (True, "up", "")
    assert row.memory_bytes > 2**20


@pytest.mark.parametrize(
    ("mode", "state", "text"),
    [
        ("hangs", "silent", "no answer in 1.5 s; its record allows 0.5 s"),
        ("drips", "silent", "no answer in 1.5 s; its record allows 0.5 s"),
        ("late", "slow", "its record allows 0.5 s"),
        ("wrong", "unhealthy", "health returns no '\"ok\"'"),
    ],
)
async def test_the_second_bad_look_in_a_row_is_a_fault_and_one_good_look_ends_it(
    served: Served, mode: str, state: str, text: str
) -> None:
    one = served.look()
    await well(one)
    served.mode.write_text(mode)
    row = await looked(one)
    assert row is not None
    assert row.up, "one missed deadline is no fault"
    served.mode.write_text("well")
    await well(one)
    served.mode.write_text(mode)
    row = await looked(one)
    assert row is not None
    assert row.up, "a good look between two bad ones begins anew"
    row = await looked(one)
    assert row is not None
    assert (row.up, row.state) == (False, state)
    assert row.text.endswith(text)
    served.mode.write_text("well")
    assert (await well(one)).up


async def test_one_that_is_asked_seldom_is_asked_at_once_after_a_bad_look(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kokoro,) = served.house.services.values()
    seldom = replace(kokoro, health=replace(kokoro.health, every_s=60.0))
    one = Look(replace(served.house, services={"kokoro": seldom}))
    await well(one)
    served.mode.write_text("wrong")
    # It is not asked, and looks as before, with what it has in memory now.
    row = await looked(one, 3)
    assert row is not None
    assert row.up
    assert not one._programs["kokoro"].bad_looks
    # A minute later it is, and then at each look.
    now = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + 60)
    row = await looked(one, 2)
    assert row is not None
    assert (row.up, row.state) == (False, "unhealthy")
    served.mode.write_text("well")
    assert (await well(one)).up


async def test_one_that_is_asked_seldom_and_ends_is_red_as_soon_as_others(served: Served) -> None:
    (kokoro,) = served.house.services.values()
    seldom = replace(kokoro, health=replace(kokoro.health, every_s=60.0))
    one = Look(replace(served.house, services={"kokoro": seldom}))
    await well(one)
    served.units[0] = FAILED
    served.process.kill()
    served.process.wait()
    # systemd answers beside the first look.
    await looked(one)
    wait_for(one._units._known["kokoro/kokoro.service"][1])
    row = await looked(one, 2)
    assert row is not None
    assert (row.up, row.state) == (False, "stopped")


async def test_a_single_look_asks_a_second_time(served: Served) -> None:
    async def ask(*_: object) -> tuple[systemd.UnitState, str]:
        return ACTIVE, ""

    (owner,) = served.house.services.values()
    served.mode.write_text("hangs once")
    assert (await status.row_of(owner, ask, 0.2)).up
    served.mode.write_text("hangs")
    assert (await status.row_of(owner, ask, 0.2)).state == "silent"


async def test_a_program_that_a_signal_halted_is_named_so(served: Served) -> None:
    one = served.look()
    await well(one)
    served.signal(signal.SIGSTOP, os.WUNTRACED)
    row = await looked(one, 2)
    assert row is not None
    assert (row.up, row.state) == (False, "halted")
    served.signal(signal.SIGCONT, os.WCONTINUED)
    assert (await well(one)).up


async def test_a_program_that_died_is_shown_with_how_it_ended(served: Served) -> None:
    one = served.look()
    await well(one)
    served.units[0] = FAILED
    served.process.kill()
    served.process.wait()
    row = await looked(one)
    assert row is not None
    assert row.up
    # systemd is asked beside the look, and answers for the next one.
    wait_for(one._units._known["kokoro/kokoro.service"][1])
    row = await looked(one)
    assert row is not None
    assert (row.up, row.state, row.text) == (False, "stopped", "failed (failed, oom-kill)")


async def test_a_program_that_died_is_red_before_systemd_has_answered(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()
    monkeypatch.setattr(status, "read_unit", lambda *_: never.wait(30))
    one = served.look()
    await well(one)
    served.process.kill()
    served.process.wait()
    row = await looked(one, 2)
    never.set()
    assert row is not None
    assert (row.up, row.text) == (False, "no answer: its port is closed")


async def test_a_look_that_fails_in_an_unknown_way_keeps_nothing_green(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = served.look()
    await well(one)

    async def broken(*_: object) -> None:
        raise RuntimeError("a defect of ours")

    monkeypatch.setattr(status, "row_of", broken)
    row = await looked(one, 2)
    assert row is not None
    assert (row.up, row.text, row.state) == (False, "a defect of ours", "unknown")


async def test_a_look_that_hangs_delays_no_other_one(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look, "EVERY_S", 0.02)
    kokoro = served.house.services["kokoro"]
    # Nobody listens on the second one, and its look takes as long as the first one hangs.
    hung = replace(kokoro, name="hung", health=replace(kokoro.health, within_s=60))
    both = replace(served.house, services={"hung": hung, "kokoro": kokoro})
    served.mode.write_text("hangs")
    one = Look(both)
    running = asyncio.ensure_future(one.run())
    try:
        await until(lambda: one._programs["kokoro"].seen is not None)
        seen = one._programs["kokoro"].seen
        assert seen is not None
        assert not seen.up
        assert one._programs["hung"].seen is None
        served.mode.write_text("well")
        await until(lambda: bool((row := one._programs["kokoro"].seen) and row.up))
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def test_one_reading_of_the_firewall_is_one_look(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [Row("firewall", "part", up, "", 0) for up in (True, False, False)]
    monkeypatch.setattr(status, "firewall", lambda: rows.pop(0))
    one = served.look()

    async def looked(times: int) -> bool | None:
        for _ in range(times):
            await one._look_at_machine()
        return one._loaded.seen.up if one._loaded.seen else None

    await looked(1)
    wait_for(one._firewall)
    assert await looked(3)
    one._firewall.begun -= look.SELDOM_S
    await looked(1)
    wait_for(one._firewall)
    assert await looked(3), "the same reading is not a second look"
    one._firewall.begun -= look.EVERY_S
    await looked(1)
    wait_for(one._firewall)
    assert await looked(1) is False


def test_a_disk_that_does_not_respond_leaves_no_old_row_green(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, disk = threading.Event(), Row("disk", "part", True, "80 GiB free", 0)
    monkeypatch.setattr(status, "all_rows", lambda *_: go.wait(30) and [disk])
    one = served.look()
    go.set()
    one._others.renew(0)
    wait_for(one._others)
    assert one.rows() == [disk]
    go.clear()
    one._others.renew(0)
    assert one.rows() == [disk]
    one._others.begun -= look._STUCK_S
    (row,) = one.rows()
    assert (row.up, row.state) == (False, "unknown")
    go.set()
    wait_for(one._others)
    assert one.rows() == [disk]


def test_a_good_look_outweighs_every_look_that_started_before_it() -> None:
    steady: Steady[str] = Steady()
    steady.add(0, True, "up")
    # Two looks at a hung program, which overlap with a later one that is answered.
    steady.add(6, True, "up again")
    steady.add(0, False, "no answer")
    steady.add(3, False, "no answer")
    assert (steady.good, steady.seen, steady.bad_looks) == (True, "up again", 0)
    steady.add(9, False, "no answer")
    assert (steady.good, steady.seen) == (True, "up again")
    steady.add(12, False, "no answer")
    assert (steady.good, steady.seen) == (False, "no answer")


def test_what_was_never_seen_well_is_unknown_until_the_second_bad_look() -> None:
    steady: Steady[str] = Steady()
    steady.add(0, False, "no answer")
    assert steady.seen is None
    steady.add(3, False, "no answer")
    assert steady.seen == "no answer"


def wait_for(reading: Reading[Any]) -> None:
    assert reading._thread is not None
    reading._thread.join(30)
    assert not reading.hangs


def test_a_reading_that_hangs_is_not_started_again_and_keeps_its_last_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go, calls = threading.Event(), []

    def read() -> int:
        calls.append(1)
        if len(calls) == 2:
            go.wait(30)
        return len(calls)

    reading = Reading(read, 0)
    reading.renew(0)
    wait_for(reading)
    reading.renew(0)
    reading.renew(0)
    assert (len(calls), reading.value, reading.hangs, reading.late) == (2, 1, True, False)
    monkeypatch.setattr(look, "_LATE_S", 0)
    assert reading.late
    go.set()
    wait_for(reading)
    assert (reading.value, reading.late) == (2, False)


def test_a_reading_that_fails_says_why_until_it_succeeds() -> None:
    outcomes: list[Exception | int] = [OSError("no\nsuch disk"), 7]

    def read() -> int:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    reading = Reading(read, 0)
    reading.renew(0)
    wait_for(reading)
    assert (reading.value, reading.error) == (0, "no such disk")
    reading.renew(0)
    wait_for(reading)
    assert (reading.value, reading.error) == (7, "")


async def test_what_systemd_said_about_another_process_is_forgotten() -> None:
    said, go = [FAILED], threading.Event()

    def read(*_: object) -> tuple[systemd.UnitState, str]:
        go.wait(30)
        return said[0], ""

    units = Units(read)

    async def asked(process: int) -> systemd.UnitState | None:
        seen = outside.Processes((process,))
        return (await units.ask("kokoro", "kokoro.service", seen))[0]

    assert await asked(11) is None, "nobody waits for systemd"
    go.set()
    wait_for(units._known["kokoro/kokoro.service"][1])
    assert await asked(11) == FAILED
    go.clear()
    said[0] = ACTIVE
    assert await asked(12) is None
    go.set()
    wait_for(units._known["kokoro/kokoro.service"][1])
    assert await asked(12) == ACTIVE


async def test_an_engine_that_does_not_answer_is_said() -> None:
    go = threading.Event()

    def lost(*_: object) -> tuple[systemd.UnitState, str]:
        go.wait(30)
        raise EngineError("kokoro: no response in 20 s")

    units = Units(lost)
    assert await units.ask("kokoro", "kokoro.service", outside.Processes()) == (None, "")
    go.set()
    wait_for(units._known["kokoro/kokoro.service"][1])
    with pytest.raises(EngineError, match="no response"):
        await units.ask("kokoro", "kokoro.service", outside.Processes())


@pytest.fixture
def routed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Router, Look]]:
    """The networks of three instances under the house's real ruleset, and the gateway's need."""
    if os.geteuid() != 0:
        pytest.skip("only root enters the network of another")
    house = derive(load(INVENTORY))
    with router(reference_house(tmp_path), tmp_path) as made:
        addresses = {"litellm": LITELLM, "ollama": OLLAMA, "kokoro": KOKORO}
        monkeypatch.setattr(
            outside, "first_process", lambda name: made.holders[addresses[name]].pid
        )
        flow = Flow("litellm", "ollama", LITELLM, OLLAMA, 11434)
        # The listener there takes connections and answers nothing.
        ollama = replace(house.services["ollama"], url=f"http://{OLLAMA}:1")
        services = {**house.services, "ollama": ollama}
        yield made, Look(replace(house, services=services, flows=(flow,)))


async def tried(one: Look) -> tuple[bool, str | None]:
    (flow,) = one.house.flows
    one._flows[flow].started = -float("inf")
    await one._try(flow.source)
    return one._flows[flow].good, one._flows[flow].seen


async def test_a_need_is_tried_from_the_network_of_its_instance_through_the_real_firewall(
    routed: tuple[Router, Look],
) -> None:
    machine, one = routed
    assert await tried(one) == (True, "")
    machine.run("", "nft", "flush", "set", "inet", "hearth", "flows")
    assert (await tried(one))[0], "one look is not enough"
    assert await tried(one) == (False, "a firewall rejects it")
    machine.run(
        "",
        "nft",
        "add",
        "element",
        "inet",
        "hearth",
        "flows",
        f"{{ {LITELLM} . {OLLAMA} . 11434 }}",
    )
    assert await tried(one) == (True, "")


def test_no_connection_is_blamed_while_a_program_at_its_end_is_in_doubt() -> None:
    house = derive(load(INVENTORY))
    one = Look(house)
    for name, steady in one._programs.items():
        steady.add(0, good=True, seen=Row(name, "service", True, "up", 0))
    flow = next(flow for flow in house.flows if flow.source == "litellm")
    for started in (1, 2):
        one._flows[flow].add(started, good=False, seen="hung")

    def connections() -> Row:
        return next(row for row in one._read_others() if row.name == "connections")

    assert not connections().up
    one._programs[flow.target].add(3, good=False, seen=Row(flow.target, "service", False, "", 0))
    assert connections().up
