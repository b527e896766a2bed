"""Each check of what was built fires on a broken reading and is silent on a healthy one."""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from hearth.backup import age
from hearth.backup.create import file_name, note_made
from hearth.doctor import checks_house as checks
from hearth.doctor.finding import Context, fetch
from hearth.machine import converged, images, runs
from hearth.machine.images import IMAGE_KEY
from hearth.machine.systemd import UnitState
from hearth.machine.versions import is_older
from hearth.paths import WATCH_UNIT
from hearth.smoke.history import write
from hearth.smoke.receipt import Figure, MeasuredMachine, Receipt, Verdict
from tests.unit.doctor.conftest import HOUSE, instance
from tests.unit.doctor.test_checks_services import seen

NOTHING: Mapping[str, Any] = {"edited": [], "unfinished": [], "debian": {}}


@pytest.fixture(autouse=True)
def _no_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No run changes this machine."""
    (tmp_path / "lock").touch()
    monkeypatch.setattr(runs, "LOCK", tmp_path / "lock")


def looked(monkeypatch: pytest.MonkeyPatch, place: str | None, **found: Any) -> None:
    def run_program(at: str | None, *_: Any, **__: Any) -> Mapping[str, Any]:
        return {**NOTHING, **found} if at == place else NOTHING

    monkeypatch.setattr("hearth.doctor.checks_house.engine.run_program", run_program)


def test_edits_by_hand_and_unfinished_programs_are_found(
    healthy: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked(monkeypatch, "nowhere")
    assert seen(checks.systems(healthy)) == []
    looked(monkeypatch, None, edited=[["/etc/hearth/Caddyfile", "its text differs"]])
    assert seen(checks.systems(healthy)) == [("HEARTH-FILE-EDITED", "/etc/hearth/Caddyfile")]
    looked(monkeypatch, "kokoro", unfinished=["kokoro"], edited=[["/etc/x", "it is gone"]])
    found = [("HEARTH-FILE-EDITED", "kokoro:/etc/x"), ("HEARTH-RUN-UNFINISHED", "kokoro:kokoro")]
    assert seen(checks.systems(healthy)) == found
    # A run that writes files at this moment is no edit by hand.
    runs.LOCK.write_text(runs.this_run(["up"]).dump())
    assert seen(checks.systems(healthy)) == []


def test_a_debian_package_below_its_minimum_is_found(
    healthy: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked(monkeypatch, "litellm", debian={"caddy": "2.6.2-12+deb13u1"})
    assert seen(checks.systems(healthy)) == []
    looked(monkeypatch, "litellm", debian={"caddy": "2.6.2-12"})
    assert seen(checks.systems(healthy)) == [("HEARTH-VERSION-OLD", "caddy in litellm")]


def test_a_file_that_differs_is_found_by_the_program_in_the_instance(tmp_path: Path) -> None:
    records, file = tmp_path / "converged", tmp_path / "settings.json"
    records.mkdir()
    file.write_text("{}")
    file.chmod(0o644)
    stat, digest = file.stat(), hashlib.sha256(b"{}").hexdigest()
    state = f"{digest} 0644 {stat.st_uid}:{stat.st_gid}"
    record = {"digest": "a/b", "at": 1, "files": [str(file)], "states": {str(file): state}}
    (records / "kokoro.json").write_text(json.dumps(record))
    assert converged.look([], records) == NOTHING
    file.chmod(0o666)
    assert converged.look([], records)["edited"] == [
        [str(file), "its mode is 0666 instead of 0644"]
    ]
    file.write_text("{} # by hand")
    assert converged.look([], records)["edited"] == [[str(file), "its text differs"]]
    file.unlink()
    assert converged.look([], records)["edited"] == [[str(file), "it is gone"]]
    (records / "kokoro.json").write_text(json.dumps({"digest": "/b", "unfinished": True}))
    assert converged.look([], records)["unfinished"] == ["kokoro"]
    # Written by an earlier version, which did not tell.
    (records / "kokoro.json").write_text(json.dumps({"digest": "/b", "files": []}))
    assert converged.look([], records) == NOTHING
    (records / "kokoro.json").write_text("{")
    assert converged.look([], records)["edited"][0][1] == "it cannot be read"


def test_a_program_that_was_removed_is_no_edit(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("")
    gone = {str(tmp_path / name): "0 0644 0:0" for name in ("one", "two")}
    (tmp_path / "old.json").write_text(json.dumps({"states": gone}))
    assert converged.look([], tmp_path)["edited"] == []
    half = gone | {str(tmp_path / "kept"): "0 0644 0:0"}
    (tmp_path / "old.json").write_text(json.dumps({"states": half}))
    assert len(converged.look([], tmp_path)["edited"]) == 3


def test_a_python_package_and_a_program_below_their_minimum_are_found(healthy: Context) -> None:
    def version(found: str) -> None:
        folder = healthy.root / "var/lib/hearth/programs/litellm/current/litellm-1.dist-info"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: litellm\nVersion: {found}\n"
        )

    context = replace(healthy, fetch=lambda url: {"version": "0.35.0"})
    version("1.104.0")
    assert seen(checks.versions(context)) == []
    version("1.82.7")
    assert seen(checks.versions(context)) == [("HEARTH-VERSION-OLD", "litellm in litellm")]
    version("1.105.0")
    old = replace(context, fetch=lambda url: {"version": "0.34.0"})
    assert seen(checks.versions(old)) == [("HEARTH-VERSION-OLD", "ollama in ollama")]


def test_debians_own_order_of_versions_counts() -> None:
    caddy = HOUSE.minimum_versions["caddy"]
    assert is_older("2.6.2-12", caddy)
    assert not is_older("2.6.2-12+deb13u2", caddy)
    assert not is_older("1", replace(caddy, oldest=None))


def test_images_that_are_outdated_or_half_finished_are_found(healthy: Context) -> None:
    def house(name: str, key: str | None) -> Context:
        def incus(path: str) -> Any:
            for one in HOUSE.services.values():
                alias = images.recipe_of(one, HOUSE.machine.resolver_address).alias
                its = key if one.name == name else alias
                yield instance(one.instance, config={IMAGE_KEY: its} if its else {})

        return replace(healthy, incus=incus)

    assert seen(checks.instance_images(house("", ""))) == []
    old = house("kokoro", "hearth-debian-13-0123456789ab")
    assert seen(checks.instance_images(old)) == [("HEARTH-IMAGE-OUTDATED", "kokoro")]
    assert seen(checks.instance_images(house("kokoro", None))) == [
        ("HEARTH-RUN-UNFINISHED", "kokoro")
    ]
    left = healthy.root / "var/lib/hearth/images/.image-x"
    left.mkdir(parents=True)
    assert seen(checks.instance_images(house("", ""))) == [("HEARTH-IMAGE-UNFINISHED", str(left))]
    runs.LOCK.write_text(runs.this_run(["up"]).dump())
    assert seen(checks.instance_images(old)) == []


@pytest.fixture
def marked() -> Iterator[Any]:
    """Return what starts a process that carries a run's name."""
    started = []

    def start(name: str) -> int:
        mark = {runs.MARK: f"{runs.scope(runs.LOCK)}.{name}"}
        argv = [sys.executable, "-c", "import time; time.sleep(60)"]
        started.append(subprocess.Popen(argv, env={**os.environ, **mark}))
        # It is started a moment before the kernel shows its environment.
        while runs.MARK.encode() not in Path(f"/proc/{started[-1].pid}/environ").read_bytes():
            time.sleep(0.01)
        return started[-1].pid

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_runs_that_were_killed_or_work_side_by_side_are_found(
    healthy: Context, marked: Any
) -> None:
    assert seen(checks.run_traces(healthy)) == []
    one, two = (subprocess.Popen(["/bin/sleep", "60"]) for _ in range(2))
    try:
        marked(f"{one.pid}.{runs.started(one.pid)}")
        assert seen(checks.run_traces(healthy)) == []
        marked(f"{two.pid}.{runs.started(two.pid)}")
        assert seen(checks.run_traces(healthy)) == [("HEARTH-RUNS-TWO", "")]
    finally:
        for process in (one, two):
            process.kill()
            process.wait()
    (found,) = checks.run_traces(healthy)
    assert (found.kind.name, found.about) == ("HEARTH-RUN-UNFINISHED", "")
    assert "and 1 more" in found.evidence


def test_a_restore_that_was_cut_short_is_found(healthy: Context) -> None:
    marker = healthy.root / "var/lib/hearth/backup/restoring"
    marker.parent.mkdir(parents=True)
    marker.touch()
    assert seen(checks.run_traces(healthy)) == [
        ("HEARTH-COMMAND-UNFINISHED", "/var/lib/hearth/backup/restoring")
    ]


NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def keeps_backups(context: Context, folder: Path) -> Context:
    timer = context.root / "etc/systemd/system/hearth-backup.timer"
    timer.parent.mkdir(parents=True)
    timer.touch()
    long_ago = (NOW - timedelta(days=90)).timestamp()
    os.utime(timer, (long_ago, long_ago))
    _, recipient = age.new_key()
    settings = replace(HOUSE.machine.backup, recipient=recipient, to=str(folder), at="03:30")
    house = replace(HOUSE, machine=replace(HOUSE.machine, backup=settings))
    return replace(context, house=house, now=NOW.timestamp())


def backed_up(context: Context, folder: Path, when: datetime, size: int = 200_000) -> Path:
    path = folder / file_name("house", when)
    with (
        path.open("wb") as target,
        age.encrypting(str(context.house.machine.backup.recipient), target) as sink,
    ):
        sink.write(os.urandom(size))
    return path


def test_backups_that_are_old_or_damaged_are_found(healthy: Context, tmp_path: Path) -> None:
    assert seen(checks.backup(healthy)) == []
    folder = tmp_path / "backups"
    folder.mkdir()
    context = keeps_backups(healthy, folder)
    assert seen(checks.backup(context)) == [("HEARTH-BACKUP-OLD", "")]
    backed_up(context, folder, NOW - timedelta(days=3))
    assert seen(checks.backup(context)) == [("HEARTH-BACKUP-OLD", "")]
    last = backed_up(context, folder, NOW - timedelta(hours=8))
    assert seen(checks.backup(context)) == []
    note_made(last, healthy.root / "var/lib/hearth/backup")
    assert seen(checks.backup(context)) == []
    for damage in (last.read_bytes()[:-1], last.read_bytes()[:99], b"", b"no backup at all"):
        last.write_bytes(damage)
        assert seen(checks.backup(context)) == [("HEARTH-BACKUP-UNREADABLE", str(last))], damage[:9]


def test_a_backup_whose_content_has_changed_is_found(healthy: Context, tmp_path: Path) -> None:
    context = keeps_backups(healthy, tmp_path)
    last = backed_up(context, tmp_path, NOW - timedelta(hours=8))
    note = context.root / "var/lib/hearth/watch/backup.json"
    note.parent.mkdir(parents=True)
    for name, found in ((last.name, True), ("another", False)):
        note.write_text(json.dumps({"name": name, "at": 5.0, "fault": "its content is not"}))
        assert bool(seen(checks.backup(context))) is found


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 131_072])
def test_a_whole_backup_of_any_size_is_readable(
    healthy: Context, tmp_path: Path, size: int
) -> None:
    context = keeps_backups(healthy, tmp_path)
    assert age.fault(backed_up(context, tmp_path, NOW, size)) == ""


def receipt(day: int, median: float) -> Receipt:
    return Receipt(
        house="house",
        made=f"2026-11-0{day}T00:00:00+00:00",
        seconds=60,
        hearth="abc1234",
        machine=MeasuredMachine("a", "Debian 13.2", "6.12", "Ryzen 7", 8, 2**34, []),
        accelerator={},
        versions={},
        addresses=[],
        figures=[Figure("first token", "s", 9, median, 1.2 * median)],
        verdicts=[Verdict("health is as expected", "ollama", "passed", "", 0.1)],
    )


def test_a_receipt_outside_what_is_usual_on_its_machine_is_found(healthy: Context) -> None:
    folder = healthy.root / "var/lib/hearth/receipt"
    assert seen(checks.receipts(healthy)) == []
    for day, median in enumerate((0.4, 0.41, 0.42, 0.4, 0.41, 0.43), 1):
        write(receipt(day, median), folder)
    assert seen(checks.receipts(healthy)) == []
    write(receipt(7, 2.0), folder)
    (found,) = checks.receipts(healthy)
    assert found.key == "HEARTH-HOUSE-SLOWER:first token"
    assert "2 s now" in found.evidence
    assert "usual here is 0.41 s" in found.evidence


def test_a_watcher_that_is_silent_is_found(
    healthy: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    up = UnitState("active", "running", "success", int(healthy.now) - 600)
    monkeypatch.setattr("hearth.doctor.checks_house.systemd.unit_state", lambda *_: up)
    # This house has none.
    assert seen(checks.watcher(healthy)) == []
    for path in (f"etc/systemd/system/{WATCH_UNIT}", "run/hearth-watch/snapshot.json"):
        (healthy.root / path).parent.mkdir(parents=True)
        (healthy.root / path).touch()
    assert seen(checks.watcher(healthy)) == [("HEARTH-WATCHER-SILENT", "watch")]
    snapshot, now = (
        healthy.root / "run/hearth-watch/snapshot.json",
        time.clock_gettime(time.CLOCK_BOOTTIME),
    )
    snapshot.write_text(json.dumps({"made_boot_s": now}))
    assert seen(checks.watcher(healthy)) == []
    snapshot.write_text(json.dumps({"made_boot_s": now - 60}))
    assert seen(checks.watcher(healthy)) == [("HEARTH-WATCHER-SILENT", "watch")]
    fresh = replace(up, since=int(healthy.now) - 3)
    monkeypatch.setattr("hearth.doctor.checks_house.systemd.unit_state", lambda *_: fresh)
    assert seen(checks.watcher(healthy)) == []
    assert asdict(up)


def test_a_canary_that_failed_is_found(healthy: Context) -> None:
    def write(ok: object, age_s: float = 0) -> None:
        file = healthy.root / "run/hearth-health/canary.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        one = {"what": "speech of kokoro", "ok": ok, "seconds": None, "at": 1.0, "text": "silent"}
        made = time.clock_gettime(time.CLOCK_BOOTTIME) - age_s
        file.write_text(json.dumps({"made_boot_s": made, "results": [one]}))

    assert seen(checks.canary(healthy)) == []
    for ok in (True, None, "odd"):
        write(ok)
        assert seen(checks.canary(healthy)) == []
    write(False)
    assert seen(checks.canary(healthy)) == [("HEARTH-CANARY-FAILED", "speech of kokoro")]
    (finding,) = checks.canary(healthy)
    assert finding.evidence == "speech of kokoro: silent"
    # What it found before it stopped says nothing about now.
    write(False, age_s=600)
    assert seen(checks.canary(healthy)) == []


class Prometheus(BaseHTTPRequestHandler):
    """Answers as Prometheus does, by the path of its interface."""

    def do_GET(self) -> None:
        answers: Mapping[str, Any] = self.server.answers  # type: ignore[attr-defined]
        self.server.paths.append(self.path)  # type: ignore[attr-defined]
        body = json.dumps({"status": "success", "data": answers[self.path]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep still."""


@pytest.fixture
def prometheus() -> Iterator[Any]:
    """A server of `answers` by path, which notes the `paths` of its requests."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Prometheus)
    server.answers, server.paths = {}, []
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def alert(name: str, about: str, value: str = "0e+00", state: str = "firing") -> dict[str, Any]:
    labels = {"alertname": f"HEARTH-{name}", "about": about, "severity": "error"}
    began = (datetime.now(UTC) - timedelta(minutes=7)).isoformat().replace("+00:00", "123Z")
    return {"labels": labels, "annotations": {}, "state": state, "activeAt": began, "value": value}


def asks(healthy: Context, server: Any) -> Context:
    """Return the house with this server as its Prometheus."""
    url = f"http://127.0.0.1:{server.server_port}"
    services = {**HOUSE.services, "prometheus": replace(HOUSE.services["prometheus"], url=url)}
    return replace(healthy, house=replace(HOUSE, services=services), fetch=fetch)


def test_what_only_prometheus_sees_is_a_finding_while_its_alert_fires(
    healthy: Context, prometheus: Any
) -> None:
    context = asks(healthy, prometheus)
    refused = "dial tcp 10.140.30.14:8880: connect: connection refused"
    prometheus.answers |= {
        "/api/v1/alerts": {
            "alerts": [
                alert("METRICS-MISSING", "kokoro"),
                alert("METRICS-MISSING", "whisper", state="pending"),
                alert("SITE-UNREACHABLE", "chat.lan"),
                alert("ALERT-NOT-SENT", "email", "4.2e+00"),
                # The watcher has reported this one itself.
                alert("DISK-FULL", "/var"),
            ]
        },
        "/api/v1/targets?state=active": {
            "activeTargets": [
                {"labels": {"job": "kokoro"}, "health": "down", "lastError": refused},
                {"labels": {"job": "ollama"}, "health": "up", "lastError": ""},
            ]
        },
    }
    assert [(one.key, one.evidence) for one in checks.alerts(context)] == [
        (
            "HEARTH-METRICS-MISSING:kokoro",
            f"Prometheus has read no figures of kokoro for 7 minutes: {refused}",
        ),
        (
            "HEARTH-SITE-UNREACHABLE:chat.lan",
            "https://chat.lan/ has given the probe no page for 7 minutes",
        ),
        ("HEARTH-ALERT-NOT-SENT:email", "4 messages by email failed in the last 10 minutes"),
    ]
    # In a calm house there is one request, with a small answer.
    prometheus.answers["/api/v1/alerts"] = {"alerts": [alert("DISK-FULL", "/var")]}
    prometheus.paths.clear()
    assert seen(checks.alerts(context)) == []
    assert prometheus.paths == ["/api/v1/alerts"]


def test_a_prometheus_that_is_down_or_not_there_adds_no_finding(
    healthy: Context, prometheus: Any
) -> None:
    context = asks(healthy, prometheus)
    prometheus.shutdown()
    prometheus.server_close()
    assert seen(checks.alerts(context)) == []
    services = {name: one for name, one in HOUSE.services.items() if not one.scrapes}
    assert seen(checks.alerts(replace(context, house=replace(HOUSE, services=services)))) == []


def test_figures_of_very_many_programs_make_a_list_that_people_can_read(
    healthy: Context, prometheus: Any
) -> None:
    many = [alert("METRICS-MISSING", f"program-{number}") for number in range(3000)]
    prometheus.answers |= {
        "/api/v1/alerts": {"alerts": many},
        "/api/v1/targets?state=active": {"activeTargets": []},
    }
    assert len(seen(checks.alerts(asks(healthy, prometheus)))) == 50
