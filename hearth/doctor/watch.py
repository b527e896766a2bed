"""Watch the house: keep its state as a document in memory, and heal what people tell it to.

Nothing that is broken may stop it. What hangs is waited for in a thread, what fails is said in the
document, and a full disk costs only what it would have remembered.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import hearth
from hearth import status
from hearth.catalogue.house import House, from_vars
from hearth.clients import canary, loaded
from hearth.clients.endpoints import one_line
from hearth.clients.models import Overview, without
from hearth.doctor import background, snapshot
from hearth.doctor.examination import causes, run_checks
from hearth.doctor.finding import CHECKS, Check, Context, Finding
from hearth.doctor.look import EVERY_S, SELDOM_S, Look, Reading
from hearth.doctor.verbs import RefusedError, Verbs
from hearth.doctor.versions import Versions, shown
from hearth.files import write_atomic
from hearth.machine import nvidia, runs
from hearth.paths import WATCH_FOLDER, WATCH_STATE
from hearth.project import current
from hearth.status import Row

# The page runs as this user, and its group reads the snapshot.
PAGE = "hearth-health"
SNAPSHOT, METRICS, SOCKET, STATE = "snapshot.json", "hearth.prom", "verbs.sock", "state.json"
_TICK_S, _MINUTE_S = 1.0, 60.0
# Without news: an open page renders what is written, and calls it old after 12 s.
_WRITE_S = 6.0
# A check that has found something runs at least this often, so that a repair is seen soon.
_AGAIN_S = 15.0
# Models change while one is downloaded.
_MODELS_S = 9.0
_APART = ("/usr/bin/systemd-run", "--quiet", "--collect", "--wait", "--pipe")
_FIX = ("doctor", "--fix", "--yes", "--only")
_FIX_S = 1200
# While a machine starts, its programs do so too.
_START_S = 120.0


class WatchError(Exception):
    """One line for a person: why the house cannot be watched."""


def read_house(path: Path) -> House:
    """Return the house as it was last converged; it needs no valid inventory."""
    try:
        return from_vars(House, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a house"
        raise WatchError(f"{path}: {why}: `hearth up` writes it") from None


class Watcher:
    """Everything that is known about one house."""

    def __init__(
        self, house: House, folder: Path = WATCH_FOLDER, state: Path = WATCH_STATE
    ) -> None:
        self.house, self.folder, self.state = house, folder, state / STATE
        self.look = Look(house)
        self.memory = snapshot.read_memory(self.state)
        self.findings: list[Finding] = []
        self._found: dict[str, list[Finding]] = {}
        self._checked: dict[str, float] = {}
        self._was_up = False
        # Side by side by their interval, so that a slow check does not delay a quick one.
        self._examinations = {
            every_s: Reading(partial(self._examine, every_s), None)
            for every_s in sorted({one.every_s for one in CHECKS.values()})
        }
        self._models = Reading(partial(status.models, house), Overview({}, {}))
        self._receipt = Reading(background.receipt, dict[str, Any]())
        self._cards: Reading[list[str]] = Reading(nvidia.lines, [])
        # Each with its interval; the names are those of the document.
        self._slow: dict[str, tuple[Reading[Any], float]] = {
            "disk": (Reading(partial(background.disks, house), []), SELDOM_S),
            "memory": (Reading(background.memory, {}), SELDOM_S),
            "certificates": (Reading(background.certificates, {}), _MINUTE_S),
            "sites_until": (Reading(partial(background.sites_until, house), None), _MINUTE_S),
            "updates": (Reading(background.updates, None), _MINUTE_S),
            "address": (Reading(partial(background.address, house), ""), _MINUTE_S),
            "backup": (Reading(partial(background.last_backup, house), None), _MINUTE_S),
            "last_run": (Reading(background.last_run, None), SELDOM_S),
            "devices": (Reading(self._read_devices, {}), _MINUTE_S),
            "loaded": (Reading(self._read_loaded, []), SELDOM_S),
            "versions": (Reading(Versions(house, lambda: self.look.rows()).read, {}), _MINUTE_S),
            "canary": (Reading(canary.read, canary.Canary()), SELDOM_S),
            "requests": (Reading(partial(background.requests, house), {}), SELDOM_S),
        }
        self._remembered = self._memory_text()
        self._written: tuple[object, float] = (None, -float("inf"))

    async def run(self) -> None:
        """Watch until this is cancelled."""
        verbs = Verbs(
            self.folder / SOCKET,
            PAGE,
            {
                "plan": ("key", self.plan),
                "fix": ("key", self.fix),
                "ignore": ("key", self.ignore),
                "notice": ("key", self.notice),
                "unload": ("model", self.unload),
            },
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(self.look.run())
            group.create_task(verbs.serve())
            group.create_task(self._publish())

    async def _publish(self) -> None:
        """Write the document when it has changed, and every six seconds."""
        said = ""
        while True:
            try:
                self._renew()
                self.publish()
            except Exception as error:  # the next one may succeed; until then it is stale
                if said != (said := f"no snapshot: {error!r}"):
                    print(said, file=sys.stderr, flush=True)
            await asyncio.sleep(_TICK_S)

    def _renew(self) -> None:
        for reading, every_s in self._slow.values():
            reading.renew(every_s)
        self._receipt.renew(_MINUTE_S)
        self._cards.renew(SELDOM_S)
        self._models.renew(_MODELS_S)
        # What is still starting is no finding; each row says what does not work yet.
        if self.look.ready and self._started_s() is None:
            for every_s, reading in self._examinations.items():
                if self._due(every_s):
                    reading.renew(_TICK_S)

    def publish(self) -> None:
        """Write the document and the metrics if there is news or it is time, and remember."""
        now, seen = time.time(), self.look.rows()
        self._was_up = self._was_up or (self.look.ready and all(row.up for row in seen))
        rows = status.judged(seen, self._slow["canary"][0].value)
        self.memory.note_rows(rows, now)
        self.findings = causes(self._found)
        if self._checked.keys() >= CHECKS.keys():
            self.memory.forget_others(rows)
            self.memory.note_findings(self.findings, now)
        run = self.active_run()
        # What is measured anew at each look is no news.
        news = (
            [(row.name, row.up, row.text) for row in rows],
            [(one.key, one.evidence) for one in self.findings],
            [*self.memory.ignored],
            run and run["what"],
            self._models.value,
            self._slow["loaded"][0].value,
        )
        again = self._written[1] + _WRITE_S - _TICK_S / 2
        if news == self._written[0] and time.monotonic() < again:
            return
        self._written = (news, time.monotonic())
        whole = snapshot.stamped(self.document(rows, run))
        text = json.dumps(whole, ensure_ascii=False)
        snapshot.write(self.folder / SNAPSHOT, text, PAGE)
        cards = "".join(f"{line}\n" for line in self._cards.value)
        snapshot.write(self.folder / METRICS, snapshot.metrics(whole) + cards)
        self._remember()

    def document(self, rows: Sequence[Row], run: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return everything that is known, without the time."""
        known = {name: one.value for name, (one, _) in self._slow.items()}
        # One that answers and fails may still do its work with another model.
        down = {row.name for row in rows if not row.up and row.state != "failing"}
        overview = without(self._models.value, self.house, down).as_json()
        receipt = self._receipt.value
        machine = ("disk", "memory", "certificates", "sites_until", "updates", "address")
        versions = shown(self.house, known["versions"], receipt)
        return {
            "hearth": hearth.__version__,
            "run": run,
            "rows": snapshot.rows_as_json(
                rows, self.memory, versions, known["devices"], known["canary"].worked
            ),
            "sites": snapshot.sites_as_json(self.house, rows),
            "models": overview["models"],
            "aliases": overview["aliases"],
            "loaded": known["loaded"],
            "canary": known["canary"].results,
            "requests": known["requests"],
            "findings": snapshot.findings_as_json(self.findings, self.memory),
            "machine": {name: known[name] for name in machine},
            "backup": known["backup"],
            "receipt": {key: receipt[key] for key in ("made", "summary", "good")}
            if receipt
            else None,
            "last_run": known["last_run"],
            "errors": self._errors(overview),
        }

    def active_run(self) -> dict[str, Any] | None:
        """Return what changes the house now, such as a run, or the start of the machine."""
        if (run := background.active_run()) or (up_s := self._started_s()) is None:
            return run
        return {"what": "the machine is starting", "since": time.time() - up_s}

    def _started_s(self) -> float | None:
        """Return for how long the machine has been starting; None once everything was up."""
        if self._was_up:
            return None
        # By its first process: a lab machine shares the clock of the one that it runs on.
        began = runs.started(1) / os.sysconf("SC_CLK_TCK")
        up_s = time.clock_gettime(time.CLOCK_BOOTTIME) - began
        return None if up_s > _START_S else up_s

    def _errors(self, overview: Mapping[str, Any]) -> list[str]:
        """Return what could not be found out, one line each."""
        readings = {name: one for name, (one, _) in self._slow.items()}
        named = {**readings, "models": self._models, "receipt": self._receipt}
        failed = [f"{name}: {one.error}" for name, one in named.items() if one.error]
        # Without the seconds, which would be news every time.
        hung = [f"{name}: still reading after a minute" for name, one in named.items() if one.late]
        return [*self.look.errors, *failed, *hung, *overview["notes"]]

    def _read_devices(self) -> dict[str, str]:
        return background.devices(self.house, self._receipt.value)

    def _read_loaded(self) -> list[dict[str, Any]]:
        # A service that is down has its own row.
        down = {row.name for row in self.look.rows() if not row.up}
        servers = [one for one in self.house.offering("loaded_models") if one.name not in down]
        there = [model for one in servers for model in loaded.loaded_models(one)]
        return [asdict(model) for model in loaded.planned_memory().beside(there)]

    def _examine(self, every_s: float) -> None:
        """Run those of these checks that are due; their findings stay until they run again."""
        now, due = time.monotonic(), self._due(every_s)
        context = Context(self.house, self.look.rows, lambda: self._models.value, time.time())
        self._found |= run_checks(context, due)
        self._checked |= {one.name: now for one in due}

    def _due(self, every_s: float) -> list[Check]:
        """Return the checks of this interval whose time has come."""
        now, due = time.monotonic(), []
        for one in CHECKS.values():
            again_s = min(every_s, _AGAIN_S) if self._found.get(one.name) else every_s
            ago_s = now - self._checked.get(one.name, -float("inf"))
            if one.every_s == every_s and ago_s >= again_s - EVERY_S / 2:
                due.append(one)
        return due

    def _finding(self, key: str) -> Finding:
        found = next((one for one in self.findings if one.key == key), None)
        if found is None:
            raise RefusedError("this finding no longer exists: reload the page")
        return found

    def plan(self, key: str) -> str:
        """Return what `fix` would do."""
        # Only here, for its libraries take memory.
        from hearth.doctor import fixes

        return fixes.plan(self._finding(key), self.house)

    def fix(self, key: str) -> str:
        """Heal a finding, and return what was done."""
        finding = self._finding(key)
        if not finding.kind.fixable:
            raise RefusedError(f"only a person can repair this: {finding.kind.todo}")
        self._refuse_beside_a_run()
        try:
            # Outside the limits of this program's own unit: a fix may write what they forbid.
            done = subprocess.run(  # noqa: S603 - our own words, and a key that a check made
                [
                    *_APART,
                    str(current().root / "scripts/hearth"),
                    *_FIX,
                    key,
                    "--seen",
                    finding.evidence,
                ],
                capture_output=True,
                text=True,
                check=False,
                timeout=_FIX_S,
                stdin=subprocess.DEVNULL,
            )
        finally:
            # All checks are due: what was healed is seen at once.
            self._checked = dict.fromkeys(self._checked, -float("inf"))
        lines = [line.strip() for line in done.stderr.splitlines() if line.startswith("  ")]
        text = "; ".join(lines) or one_line(done.stderr) or "no finding of this name is left"
        if done.returncode:
            raise RefusedError(text)
        return text

    def ignore(self, key: str) -> str:
        """Show a finding no more, until it changes."""
        finding = self._finding(key)
        self.memory.ignored[key] = snapshot.identity(finding)
        return f"{key} is ignored until it changes"

    def notice(self, key: str) -> str:
        """Show an ignored finding again."""
        if self.memory.ignored.pop(key, None) is None:
            raise RefusedError(f"{key} is not ignored")
        return f"{key} is shown again"

    def unload(self, model: str) -> str:
        """Take a model out of the memory of the service that has loaded it."""
        self._refuse_beside_a_run()
        return loaded.unload(self.house, model)

    def _refuse_beside_a_run(self) -> None:
        if run := background.active_run():
            raise RefusedError(f"a run is going on (`{run['what']}`): wait for its end")

    def _memory_text(self) -> str:
        return json.dumps(asdict(self.memory))

    def _remember(self) -> None:
        if (text := self._memory_text()) == self._remembered:
            return
        # On a full disk it is only forgotten at the next start.
        with contextlib.suppress(OSError):
            write_atomic(self.state, text.encode(), 0o600)
            self._remembered = text
