"""The watcher survives what it reports, and says what it does not know."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hearth.clients.canary import Canary, Work
from hearth.clients.models import ModelState, Overview, alias_state
from hearth.doctor import background, fixes, watch
from hearth.doctor.finding import Check, Context, Finding, Kind
from hearth.doctor.look import Reading
from hearth.doctor.verbs import RefusedError
from hearth.doctor.watch import Watcher
from hearth.files import locked
from hearth.machine import runs
from hearth.status import Row
from tests.unit.doctor.conftest import HOUSE

ROWS = [Row("kokoro", "service", True, "up", 5), Row("disk", "part", True, "80 GiB free", 0)]
KIND = Kind("HEARTH-DISK-LOW", "warning", "Little room", "It is nearly full.", "Free some.", True)
LOW = Finding(KIND, "/var", "4.93 GiB free on the disk of /var")

ONLY: dict[str, Check] = {}


class Looked:
    """A look whose rows a test chooses."""

    def __init__(self) -> None:
        self.seen, self.ready, self.errors = [*ROWS], True, list[str]()

    def rows(self) -> list[Row]:
        return self.seen


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """What the only check finds."""
    found: list[Finding] = []
    monkeypatch.setattr(watch, "CHECKS", ONLY)
    ONLY["one"] = Check("one", lambda _: [*found], 600, 6)
    return found


@pytest.fixture
def watcher(tmp_path: Path, found: list[Finding], monkeypatch: pytest.MonkeyPatch) -> Watcher:
    monkeypatch.setattr(background, "active_run", lambda: None)
    return made(tmp_path)


def made(folder: Path) -> Watcher:
    (folder / "state").mkdir(exist_ok=True)
    (folder / "run").mkdir(exist_ok=True)
    watcher = Watcher(HOUSE, folder / "run", folder / "state")
    watcher.look = Looked()  # type: ignore[assignment]
    return watcher


def published(watcher: Watcher) -> dict[str, Any]:
    """Publish, and return what the page reads."""
    watcher._written = (None, -float("inf"))
    watcher.publish()
    return dict(json.loads((watcher.folder / "snapshot.json").read_text()))


def examined(watcher: Watcher) -> None:
    watcher._checked = {}
    watcher._examine(600)


def test_the_snapshot_has_everything_that_the_page_reads(watcher: Watcher) -> None:
    document = published(watcher)
    assert {*document} >= {
        *("version", "made", "made_boot_s", "hearth", "run", "rows", "sites", "models", "aliases"),
        *("loaded", "findings", "machine", "backup", "receipt", "last_run", "errors"),
    }
    assert {*document["machine"]} == {
        *("disk", "memory", "certificates", "sites_until", "updates", "address"),
    }
    assert (document["version"], document["run"], document["receipt"]) == (1, None, None)
    assert [(row["name"], row["up"]) for row in document["rows"]] == [
        ("kokoro", True),
        ("disk", True),
    ]
    boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert 0 <= boot - document["made_boot_s"] < 600


def test_it_is_written_at_once_when_there_is_news_and_otherwise_only_after_a_while(
    watcher: Watcher,
) -> None:
    def inode() -> int:
        return (watcher.folder / "snapshot.json").stat().st_ino

    watcher.publish()
    first = inode()
    watcher.publish()
    # A slow machine may be late enough for the next one anyway.
    late = time.monotonic() - watcher._written[1] > 1
    assert inode() == first or late
    look: Any = watcher.look
    look.seen = [replace(ROWS[0], up=False, text="no answer in 2 s"), ROWS[1]]
    before = inode()
    watcher.publish()
    assert inode() != before


def test_rows_and_findings_keep_their_times_over_a_restart(
    watcher: Watcher, found: list[Finding], tmp_path: Path
) -> None:
    found.append(LOW)
    examined(watcher)
    first = published(watcher)
    again = made(tmp_path)
    examined(again)
    second = published(again)
    assert second["rows"] == first["rows"]
    assert second["findings"] == first["findings"]
    assert first["findings"][0]["since"] > 0


def test_what_is_ignored_stays_so_over_a_restart_before_the_checks_have_run(
    watcher: Watcher, found: list[Finding], tmp_path: Path
) -> None:
    found.append(LOW)
    examined(watcher)
    published(watcher)
    assert watcher.ignore(LOW.key) == f"{LOW.key} is ignored until it changes"
    published(watcher)
    again = made(tmp_path)
    # Nothing is known yet, which is no news about the finding.
    assert published(again)["findings"] == []
    examined(again)
    assert [one["ignored"] for one in published(again)["findings"]] == [True]
    again.notice(LOW.key)
    assert [one["ignored"] for one in published(again)["findings"]] == [False]
    with pytest.raises(RefusedError, match="is not ignored"):
        again.notice(LOW.key)


def test_a_full_disk_costs_only_what_it_would_have_remembered(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(watch, "write_atomic", full)
    published(watcher)
    look: Any = watcher.look
    look.seen = [replace(ROWS[0], up=False)]
    assert [row["up"] for row in published(watcher)["rows"]] == [False]


def test_a_clock_that_jumps_stops_nothing(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = published(watcher)
    now = time.time()
    for jump in (-(10**8), 10**8):
        monkeypatch.setattr(time, "time", lambda jump=jump: now + jump)
        document = published(watcher)
        assert document["made_boot_s"] >= before["made_boot_s"]
        assert document["made"] == now + jump


def test_a_service_whose_real_work_fails_is_red_with_its_site(
    watcher: Watcher,
) -> None:
    failed = {"what": "speech of kokoro", "service": "kokoro", "ok": False, "seconds": None}
    failed |= {"at": 9.0, "text": "the sound is silent"}
    reading = watcher._slow["canary"][0]
    for ok in (True, False, None):
        worked = {"kokoro": Work("spoke", 7.0)}
        reading.value = Canary([{**failed, "ok": ok}], worked)
        document = published(watcher)
        row = document["rows"][0]
        good = ok is not False
        assert (row["up"], row["worked"]) == (good, {"verb": "spoke", "at": 7.0})
        assert row["state"] == ("" if good else "failing")
        assert ("the sound is silent" in row["text"]) is not good
        sites = {site["service"]: site["up"] for site in document["sites"]}
        assert sites["kokoro"] is good
        figures = (watcher.folder / "hearth.prom").read_text()
        # Its failing work has an alert of its own.
        assert 'hearth_up{name="kokoro",kind="service"} 1.0' in figures
    # Whether its program works is another question, and that of the checks.
    assert all(row.up for row in watcher.look.rows())


def test_aliases_are_those_that_answer_while_a_server_is_down(watcher: Watcher) -> None:
    models = {
        name: ModelState(name, name, "", "chat", "cloud" if one.host else "ready")
        for name, one in HOUSE.models.items()
    }
    aliases = {n: alias_state(one, models) for n, one in HOUSE.aliases.items() if one.offered}
    watcher._models.value = Overview(models, aliases)
    look: Any = watcher.look
    look.seen = [Row("ollama", "service", False, "gone", 5, state="stopped")]
    states = {one["state"] for one in published(watcher)["aliases"].values()}
    assert "down" in states
    # One that answers and fails may do so with another model.
    look.seen = [Row("ollama", "service", False, "it fails", 5, state="failing")]
    assert {one["state"] for one in published(watcher)["aliases"].values()} == {"ready"}


def test_what_cannot_be_found_out_is_said_and_the_rest_is_there(watcher: Watcher) -> None:
    def broken() -> None:
        raise OSError("Incus does not answer")

    reading: Reading[Any] = Reading(broken, [])
    reading.renew(0)
    assert reading._thread
    reading._thread.join(30)
    watcher._slow["loaded"] = (reading, 9)
    document = published(watcher)
    assert "loaded: Incus does not answer" in document["errors"]
    assert document["loaded"] == []
    assert document["rows"]


async def test_a_snapshot_that_cannot_be_written_is_tried_again(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watch, "_TICK_S", 0.01)
    monkeypatch.setattr(watcher, "_renew", lambda: None)
    watcher.folder.rename(watcher.folder.with_name("away"))
    publishing = asyncio.ensure_future(watcher._publish())
    await asyncio.sleep(0.2)
    watcher.folder.mkdir()
    for _ in range(1000):
        if (watcher.folder / "hearth.prom").exists():
            break
        await asyncio.sleep(0.01)
    publishing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await publishing
    assert (watcher.folder / "snapshot.json").exists()
    # One line, not one each second.
    assert capfd.readouterr().err.count("no snapshot: FileNotFoundError") == 1


def test_a_check_runs_by_its_interval_and_sooner_while_it_finds_something(
    watcher: Watcher, found: list[Finding]
) -> None:
    calls: list[Context] = []

    def look(context: Context) -> list[Finding]:
        calls.append(context)
        return [*found]

    ONLY["one"] = Check("one", look, 600, 6)
    watcher._examine(600)
    watcher._examine(600)
    assert len(calls) == 1
    found.append(LOW)
    watcher._checked["one"] -= 600
    watcher._examine(600)
    watcher._checked["one"] -= 16
    watcher._examine(600)
    assert len(calls) == 3
    found.clear()
    watcher._checked["one"] -= 16
    watcher._examine(600)
    watcher._checked["one"] -= 16
    watcher._examine(600)
    assert len(calls) == 4


def test_checks_read_the_rows_and_models_that_the_page_shows(watcher: Watcher) -> None:
    seen: list[Context] = []

    def look(context: Context) -> list[Finding]:
        seen.append(context)
        return []

    ONLY["one"] = Check("one", look, 600, 6)
    examined(watcher)
    assert seen[0].row("kokoro") == ROWS[0]
    assert seen[0].models() == Overview({}, {})


def test_a_house_that_starts_with_its_machine_is_said_to_start(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot = [20.0]
    monkeypatch.setattr(time, "clock_gettime", lambda _: boot[0])
    monkeypatch.setattr(runs, "started", lambda _: 0)
    look: Any = watcher.look
    look.seen = [replace(ROWS[0], up=False)]
    document = published(watcher)
    assert document["run"]["what"] == "the machine is starting"
    assert "hearth_run_active 1.0" in (watcher.folder / "hearth.prom").read_text()
    boot[0] = 300.0
    assert published(watcher)["run"] is None
    boot[0] = 20.0
    look.seen = ROWS
    assert published(watcher)["run"] is None
    # Once it was up, whatever comes is a fault.
    look.seen = [replace(ROWS[0], up=False)]
    assert published(watcher)["run"] is None


def test_what_is_still_starting_is_no_finding(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    # The first process of a lab machine starts long after the machine around it.
    monkeypatch.setattr(time, "clock_gettime", lambda _: 5020.0)
    monkeypatch.setattr(runs, "started", lambda _: 5000 * ticks)
    ran: list[float] = []
    every_s = next(iter(watcher._examinations))
    watcher._examinations = {every_s: Reading(lambda: ran.append(3), None)}
    watcher._slow = {}
    idle: Any = Reading(lambda: None, None)
    watcher._receipt = watcher._cards = watcher._models = idle
    watcher._renew()
    assert watcher._started_s() == 20
    watcher._was_up = True
    examination = watcher._examinations[every_s]
    assert examination._thread is None
    watcher._renew()
    assert examination._thread
    examination._thread.join(10)
    assert ran == [3]


def test_a_run_is_seen_without_touching_its_lock(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert background.active_run(lock) is None
    who = runs.this_run(["/usr/local/bin/hearth", "up"])
    with locked(lock, who=who.dump()):
        run = background.active_run(lock)
        assert run is not None
        assert run["what"] == "hearth up"
        assert abs(time.time() - run["since"]) < 600
    # The file stays, and nobody holds it.
    assert background.active_run(lock) is None
    os.utime(lock, (time.time() - 60,) * 2)
    assert background.active_run(lock) is None
    # Nothing has written into it since, so the locks are not read again.
    assert background.active_run(lock, tmp_path / "no locks") is None
    with locked(lock, who="a transfer of settings"):
        assert (background.active_run(lock) or {})["what"] == "a transfer of settings"


@pytest.fixture
def healer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Replace `hearth` by a script, which runs here and not as a unit; return what it wrote."""

    def prepare(script: str) -> Path:
        program = tmp_path / "project/scripts/hearth"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/asked\n{script}\n')
        program.chmod(0o755)
        project = type("Project", (), {"root": tmp_path / "project"})
        monkeypatch.setattr(watch, "current", lambda: project)
        monkeypatch.setattr(watch, "_APART", ())
        return tmp_path / "asked"

    return prepare


def test_a_finding_is_healed_by_the_command_that_people_use(
    watcher: Watcher, found: list[Finding], healer: Callable[[str], Path]
) -> None:
    asked = healer('echo "HEARTH-DISK-LOW" >&2; echo "  removed a file" >&2; echo "  healed" >&2')
    found.append(LOW)
    examined(watcher)
    published(watcher)
    assert watcher.fix(LOW.key) == "removed a file; healed"
    assert (
        asked.read_text()
        == f"doctor --fix --yes --only HEARTH-DISK-LOW:/var --seen {LOW.evidence}\n"
    )
    # What was healed is seen at once.
    found.clear()
    watcher._examine(600)
    assert published(watcher)["findings"] == []


def test_a_fix_that_fails_says_why(
    watcher: Watcher, found: list[Finding], healer: Callable[[str], Path]
) -> None:
    healer('echo "  not done: the disk does not respond" >&2; exit 1')
    found.append(LOW)
    examined(watcher)
    published(watcher)
    with pytest.raises(RefusedError, match=r"^not done: the disk does not respond$"):
        watcher.fix(LOW.key)


def test_nothing_is_done_for_a_finding_that_is_not_there_or_beside_a_run(
    watcher: Watcher,
    found: list[Finding],
    healer: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = healer("true")
    with pytest.raises(RefusedError, match="this finding no longer exists"):
        watcher.fix("HEARTH-DISK-LOW:/etc; reboot")
    by_hand = replace(LOW, kind=replace(KIND, name="HEARTH-CARD", fixable=False))
    found += [LOW, by_hand]
    examined(watcher)
    published(watcher)
    with pytest.raises(RefusedError, match="only a person can repair this: Free some"):
        watcher.fix(by_hand.key)
    monkeypatch.setattr(background, "active_run", lambda: {"what": "hearth up", "since": 0})
    for act, value in ((watcher.fix, LOW.key), (watcher.unload, "llama:1b")):
        with pytest.raises(RefusedError, match=r"a run is going on \(`hearth up`\)"):
            act(value)
    assert not asked.exists()
    monkeypatch.setattr(fixes, "plan", lambda finding, house: f"remove {finding.about}")
    assert watcher.plan(LOW.key) == "remove /var"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The real program, on a machine without the house."""
    (tmp_path / "house.json").write_text(json.dumps(HOUSE.as_vars()))
    for name in ("run", "state"):
        (tmp_path / name).mkdir()
    argv = [sys.executable, "-m", "hearth.cli", "watch", "--house", str(tmp_path / "house.json")]
    argv += ["--to", str(tmp_path / "run"), "--state", str(tmp_path / "state")]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_program_writes_its_snapshot_and_ends_when_it_is_told(
    started: subprocess.Popen[str], tmp_path: Path
) -> None:
    snapshot = tmp_path / "run/snapshot.json"
    end = time.monotonic() + 60
    while not snapshot.exists():
        assert started.poll() is None, started.stderr and started.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.05)
    assert json.loads(snapshot.read_text())["version"] == 1
    assert (tmp_path / "run/verbs.sock").is_socket()
    started.send_signal(signal.SIGTERM)
    assert started.wait(30) == 0
    assert "Traceback" not in (started.stderr.read() if started.stderr else "")


def test_a_house_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "house.json").write_text("{")
    argv = [sys.executable, "-m", "hearth.cli", "watch", "--house"]
    for name in ("house.json", "none.json"):
        done = subprocess.run(
            [*argv, str(tmp_path / name)], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 1
        assert "hearth up" in done.stderr
        assert done.stderr.count("\n") == 1
