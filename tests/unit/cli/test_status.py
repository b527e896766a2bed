"""`hearth status` requests the health of every program."""

import contextlib
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from rich.console import Console

from hearth import status
from hearth.catalogue import House, derive, load
from hearth.catalogue.house import Flow, Part, Service
from hearth.cli.console import table
from hearth.clients import canary
from hearth.clients.models import Overview
from hearth.machine import engine, outside, probe, systemd
from tests.ports import kept_port

INVENTORY = Path(__file__).parents[3] / "inventory"
UP = systemd.UnitState("active", "running", "success", int(time.time()) - 7200)
DOWN = systemd.UnitState("failed", "failed", "oom-kill", 0)


LOADED = engine.Completed(0, "table inet hearth {\n}\n", "")
GONE = engine.Completed(1, "", "Error: No such file or directory\nlist table inet hearth\n")
NOT_ROOT = engine.Completed(1, "", "Operation not permitted (you must be root)\nnetlink: Error:\n")


class Program(BaseHTTPRequestHandler):
    """Answers like a healthy, a wrong, a failing and a dripping program."""

    def do_GET(self) -> None:
        if self.path == "/drip":
            self.send_response(200)
            self.end_headers()
            # Twenty seconds: a client that finishes sooner has disconnected.
            with contextlib.suppress(OSError):
                for _ in range(400):
                    self.wfile.write(b".")
                    self.wfile.flush()
                    time.sleep(0.05)
            return
        self.send_response(500 if self.path == "/failing" else 200)
        self.end_headers()
        self.wfile.write(b"I am well" if self.path == "/healthy" else b"who asks?")

    def log_message(self, format: str, *args: object) -> None:
        """Keep still."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Program)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def lasting(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine has no certificates of a house; those of the tests last."""
    monkeypatch.setattr(status, "certificate_validity", lambda _: (True, "good until 2029-11-22"))
    monkeypatch.setattr(status, "free_bytes", lambda _: 80 * 2**30)


@pytest.fixture
def house() -> House:
    return derive(load(INVENTORY))


def row(
    house: House,
    url: str,
    path: str,
    patch: pytest.MonkeyPatch,
    unit: systemd.UnitState = UP,
    within_s: float = 30,
) -> status.Row:
    service = house.services["ollama"]
    health = replace(service.health, path=path, contains="I am well", within_s=within_s)
    patch.setattr(systemd, "unit_state", lambda *_: unit)
    # As `processes` sees it from outside: one that has ended has no processes.
    seen = outside.Processes((7,), unit.since, 3 * 2**20) if unit.up else outside.Processes()
    patch.setattr(outside, "processes", lambda *_: seen)
    patch.setattr(status, "models", lambda _: Overview({}, {}))
    patch.setattr(engine, "execute", lambda *_, **__: LOADED)
    changed = replace(service, url=url, health=health)
    report = status.look(replace(house, services={"ollama": changed}, parts={}, flows=()))
    assert report.good == report.rows[0].up
    return report.rows[0]


@pytest.mark.parametrize(
    ("path", "up", "text"),
    [
        ("/healthy", True, "up"),
        ("/other", False, "health returns no 'I am well'"),
        ("/failing", False, "health returns HTTP 500"),
    ],
)
def test_only_the_right_answer_is_up(
    house: House, url: str, path: str, up: bool, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = row(house, url, path, monkeypatch)
    assert (found.up, found.text) == (up, text)
    assert (found.since, found.memory_bytes) == (UP.since, 3 * 2**20)


def test_a_program_that_answers_and_fails_to_work_is_not_up() -> None:
    names = ("kokoro", "whisper", "ollama")
    rows = [status.Row(name, "service", name != "ollama", "up", 5) for name in names]
    tries: list[dict[str, Any]] = [
        {"what": "speech of kokoro", "service": "kokoro", "ok": False, "text": "HTTP 500"},
        {"what": "one token of a", "service": "ollama", "ok": False, "text": "HTTP 500"},
        # A single failure, or somebody uses it.
        {"what": "transcription by whisper", "service": "whisper", "ok": None, "text": "busy"},
        {"what": "speech of nobody", "service": "", "ok": False, "text": "HTTP 500"},
    ]
    found = status.judged(rows, canary.Canary(tries, {}))
    text = "it answers, but speech of kokoro failed twice: HTTP 500"
    assert found[0] == replace(rows[0], up=False, state="failing", text=text)
    # One that is down has its own reason.
    assert found[1:] == rows[1:]


@pytest.mark.parametrize(("path", "state"), [("/healthy", ""), ("/failing", "unhealthy")])
def test_a_part_with_a_health_check_has_to_answer_it(
    house: House, url: str, path: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = house.parts["login"]
    assert login.health is not None
    answers = replace(login.health, path=path, contains="well")
    row = look_at(replace(login, health_url=url, health=answers), house, monkeypatch)
    assert (row.name, row.up, row.state) == ("login", not state, state)


def look_at(part: Part, house: House, patch: pytest.MonkeyPatch) -> status.Row:
    """Return the row of a part of which there is a process."""
    seen = outside.Processes((7,), UP.since, 2**20)
    patch.setattr(outside, "processes", lambda *_: seen)
    patch.setattr(status, "firewall", lambda: status.Row("firewall", "part", True, "up", 0))
    alone = replace(house, services={}, parts={part.name: part}, flows=())
    return status.look_at_rows(alone)[0]


def test_every_part_has_a_health_of_its_own(house: House) -> None:
    # A process alone proves nothing.
    assert [p.name for p in house.parts.values() if not (p.health_url or p.writes)] == []
    urls = {part.name: part.health_url for part in house.parts.values()}
    assert urls["caddy"] == "http://127.0.0.1:80"
    assert urls["dnsmasq"] == f"dns://10.140.30.1/{house.sites[0].fqdn}"
    assert urls["node_exporter"] == "http://10.140.30.1:9183"
    assert urls["login"] == house.parts["login"].url


@pytest.mark.parametrize(
    ("answer", "state", "text"),
    [
        ((0, ["192.168.1.20"]), "", "up"),
        ((0, []), "unhealthy", "it has no address for chat.lan; is the machine on the network?"),
        ((-1, []), "silent", "it does not answer a query for chat.lan"),
        (struct.error(), "unhealthy", "its answer to a query is no DNS"),
    ],
)
def test_a_resolver_has_to_know_the_house(
    house: House, monkeypatch: pytest.MonkeyPatch, answer: Any, state: str, text: str
) -> None:
    asked: list[tuple[str, ...]] = []

    def resolve(*query: str) -> tuple[int, list[str]]:
        asked.append(query)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    monkeypatch.setattr(probe, "resolve", resolve)
    part = replace(house.parts["dnsmasq"], health_url="dns://10.140.30.1/chat.lan")
    row = look_at(part, house, monkeypatch)
    assert (row.up, row.state, row.text) == (not state, state, text)
    assert {*asked} == {("10.140.30.1", "chat.lan", "A")}
    # One packet may be lost.
    assert len(asked) == (2 if state == "silent" else 1)


def test_a_part_that_writes_has_to_go_on(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "snapshot.json"
    part = replace(house.parts["watch"], writes=str(file))
    assert look_at(part, house, monkeypatch).text == f"it has not written {file}"
    file.touch()
    assert look_at(part, house, monkeypatch).up
    os.utime(file, (time.time() - 60, time.time() - 60))
    row = look_at(part, house, monkeypatch)
    assert (row.state, row.text) == ("silent", f"it has written nothing new to {file}")
    # A clock that was set back is no fault of the watcher, which writes again in seconds; the
    # check `watcher` finds one that hangs by a clock that nobody sets.
    os.utime(file, (time.time() + 600, time.time() + 600))
    assert look_at(part, house, monkeypatch).up


def test_an_answer_that_drips_for_ever_is_not_up(
    house: House, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "PATIENCE_S", 0.6)
    # A machine that stalls delays one drop so long that other words are right; not three times.
    found = (row(house, url, "/drip", monkeypatch, within_s=0.3) for _ in range(3))
    text = "no answer in 0.6 s; its record allows 0.3 s"
    assert any((one.up, one.text) == (False, text) for one in found)


def test_a_unit_that_is_down_shows_how_it_ended(
    house: House, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = row(house, url, "/healthy", monkeypatch, DOWN)
    assert (found.up, found.text, found.since) == (False, "failed (failed, oom-kill)", 0)


LOOPS = systemd.UnitState(
    "activating", "auto-restart", "exit-code", 0, restarts=6, exit="exit code 3"
)


@pytest.mark.parametrize(
    "unit",
    [LOOPS, replace(LOOPS, active="active", sub="running", result="success")],
    ids=["between two starts", "just started"],
)
def test_a_program_that_ends_again_and_again_is_red_with_its_reason(
    house: House, url: str, unit: systemd.UnitState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        systemd, "last_log_lines", lambda *_: "models.json: no such file " + 200 * "x"
    )
    just_now = replace(unit, since=int(time.time()))
    found = row(house, url, "/healthy", monkeypatch, just_now)
    assert not found.up
    assert found.text.startswith(
        "keeps exiting (7 times; exit code 3): models.json: no such file x"
    )
    assert found.text.endswith("x…")


def test_a_program_that_has_run_well_since_its_ends_is_up(
    house: House, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady = replace(UP, restarts=6, exit="signal 9")
    assert row(house, url, "/healthy", monkeypatch, steady).text == "up"


def test_a_program_that_somebody_stopped_after_its_ends_is_down(
    house: House, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = row(house, url, "/healthy", monkeypatch, replace(DOWN, restarts=6, exit="signal 9"))
    assert (found.state, found.text) == ("stopped", "failed (failed, oom-kill)")


AWAY = systemd.UnitState("activating", "auto-restart", "exit-code", 0, exit="exit code 1")
SHUT = "nothing passes between instances: run `hearth up`"


@pytest.mark.parametrize(
    ("unit", "table", "journal", "text"),
    [
        (UP, LOADED, [], "up"),
        # A user who may not list rules gets the state of the unit.
        (UP, NOT_ROOT, [], "up"),
        (UP, GONE, [], f"its rules were removed; {SHUT}"),
        (
            AWAY,
            GONE,
            ["house sh[7]: /etc/hearth/firewall.nft:9:3-9: Error: User does not exist", "^^^^^"],
            f"its rules do not load (exit code 1: User does not exist); {SHUT}",
        ),
        (AWAY, GONE, ["house systemd[1]: Failed"], f"its rules do not load (exit code 1); {SHUT}"),
        # It is being tried again just now, and nothing is in the journal any more.
        (replace(AWAY, exit=""), GONE, [], f"its rules do not load; {SHUT}"),
        # An older ruleset goes on judging where a new one is refused.
        (
            AWAY,
            LOADED,
            [],
            "its rules do not load (exit code 1); older rules are active: run `hearth up`",
        ),
    ],
)
def test_a_firewall_that_is_not_loaded_is_red_with_the_fix(
    house: House,
    unit: systemd.UnitState,
    table: engine.Completed,
    journal: list[str],
    text: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(systemd, "unit_state", lambda *_: unit)
    monkeypatch.setattr(systemd, "journal", lambda *_: journal)
    monkeypatch.setattr(engine, "execute", lambda *_, **__: table)
    monkeypatch.setattr(status, "models", lambda _: Overview({}, {}))
    report = status.look(replace(house, services={}, parts={}, flows=()))
    assert [(found.name, found.up, found.text) for found in report.rows] == [
        ("firewall", text == "up", text),
        ("certificates", True, "good until 2029-11-22"),
        ("disk", True, "80.0 GiB free on the disk of /var"),
    ]
    assert report.good == (text == "up")


def test_a_certificate_near_its_end_is_red(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemd, "unit_state", lambda *_: UP)
    monkeypatch.setattr(engine, "execute", lambda *_, **__: LOADED)
    monkeypatch.setattr(status, "models", lambda _: Overview({}, {}))
    monkeypatch.setattr(
        status, "certificate_validity", lambda _: (False, "the root expires in 12 days")
    )
    report = status.look(replace(house, services={}, parts={}, flows=()))
    last = report.rows[-2]
    assert (last.name, last.text, report.good) == (
        "certificates",
        "the root expires in 12 days",
        False,
    )


@pytest.mark.parametrize(
    ("free_gib", "up", "text"),
    [
        (5, True, "5.0 GiB free on the disk of /srv/models"),
        (4.9, True, "4.9 GiB free on the disk of /srv/models: free some, before"),
        (0.9, False, "0.9 GiB free on the disk of /srv/models: free some, before"),
    ],
)
def test_a_disk_with_little_room_is_reported(
    house: House, free_gib: float, up: bool, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {Path("/var"): 80 * 2**30, Path("/srv/models"): int(free_gib * 2**30)}
    monkeypatch.setattr(status, "free_bytes", sizes.__getitem__)
    ollama = house.services["ollama"]
    volume = replace(ollama.volumes[0], from_folder="/srv/models")
    on_disk = replace(house, services={"ollama": replace(ollama, volumes=(volume,))})
    found, line = status.disk_space(on_disk)
    assert found == up
    assert line.startswith(text)
    assert line.endswith("/srv/models") == (free_gib >= 5)


def test_the_accelerator_is_what_the_receipt_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(status, "RECEIPT_FOLDER", tmp_path)
    assert "not measured yet" in status.accelerator()
    (tmp_path / "receipt.json").write_text(json.dumps({"accelerator": {"measured": "no gpu"}}))
    assert status.accelerator() == "measured no gpu"
    (tmp_path / "receipt.json").write_text("{")
    assert "not measured yet" in status.accelerator()


NEEDS = ("ollama", "kokoro", "whisper")


@pytest.fixture
def needs(house: House, url: str) -> Iterator[House]:
    """The gateway needs three services; they answer, take connections only, and do not listen."""
    here: Any = None
    with socket.create_server(("127.0.0.1", 0)) as hung, kept_port() as closed:
        ports = dict(zip(NEEDS, (urlsplit(url).port, hung.getsockname()[1], closed), strict=True))
        services: dict[str, Service] = {
            name: replace(house.services[name], instance=here, url=f"http://127.0.0.1:{port}")
            for name, port in ports.items()
        }
        services["litellm"] = replace(house.services["litellm"], instance=here)
        flows = [Flow("litellm", name, "", "127.0.0.1", port or 0) for name, port in ports.items()]
        yield replace(house, services=services, parts={}, flows=tuple(flows))


def test_a_request_along_each_need_finds_what_a_connection_would_not(needs: House) -> None:
    tried = {flow.target: problem for flow, problem in status.try_needs(needs).items()}
    assert tried == {
        "ollama": "",
        "kokoro": "it accepts the connection but does not respond within 2 s",
        "whisper": "its port is closed",
    }


def test_who_may_not_enter_a_network_is_told_who_may(
    needs: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/proc/7/ns/net")

    monkeypatch.setattr(outside, "sockets", refused)
    assert {*status.try_needs(needs).values()} == {"only root can try it"}


def test_an_instance_that_is_not_there_is_a_problem_of_each_of_its_needs(needs: House) -> None:
    away = replace(needs.services["litellm"], instance="hearth-no-such")
    found = status.try_needs(replace(needs, services={**needs.services, "litellm": away}))
    assert {*found.values()} == {"the instance hearth-no-such is not running"}


@pytest.mark.parametrize(
    ("problems", "obstacle", "text"),
    [
        (("", "", ""), "ufw drops", "3 of 3 answer"),
        (("", "", "lost"), None, "litellm to whisper: lost"),
        (("", "gone", "lost"), None, "litellm to kokoro: gone; litellm to whisper: lost"),
        (("lost", "lost", "lost"), None, "no instance reaches another: lost"),
        (("lost", "lost", "lost"), "ufw drops", "no instance reaches another: lost: ufw drops"),
    ],
)
def test_the_line_about_connections_names_the_cause_once(
    needs: House,
    problems: tuple[str, ...],
    obstacle: str | None,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(status, "firewall_problems", lambda _: [obstacle] if obstacle else [])
    tried = dict(zip(needs.flows, problems, strict=True))
    assert status.judge_needs(needs, tried) == (not any(problems), text)


def test_a_part_that_answers_hides_no_lost_instances(
    needs: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "firewall_problems", lambda _: [])
    tried = dict.fromkeys(needs.flows, "lost")
    tried |= {replace(needs.flows[0], target="node_exporter"): ""}
    assert status.judge_needs(needs, tried) == (False, "no instance reaches another: lost")


def test_a_need_is_red_only_where_both_ends_are_up(
    needs: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    up = dict.fromkeys(needs.services, True)

    async def row_of(one: Service, *_: object) -> status.Row:
        return status.Row(one.name, "service", up[one.name], "", 0)

    async def lost(house: House, flow: Flow, connection: socket.socket) -> str:
        connection.close()
        return "lost"

    monkeypatch.setattr(status, "row_of", row_of)
    monkeypatch.setattr(status, "try_need", lost)
    monkeypatch.setattr(status, "firewall", lambda: status.Row("firewall", "part", True, "up", 0))
    monkeypatch.setattr(status, "models", lambda _: Overview({}, {}))
    rows = {row.name: row for row in status.look(needs).rows}
    assert (rows["connections"].up, rows["connections"].text) == (
        False,
        "no instance reaches another: lost",
    )
    up |= {"ollama": False, "whisper": False}
    rows = {row.name: row for row in status.look(needs).rows}
    assert rows["connections"].text == "litellm to kokoro: lost"
    up |= {"litellm": False}
    rows = {row.name: row for row in status.look(needs).rows}
    assert (rows["connections"].up, rows["connections"].text) == (
        True,
        "not tried: services are down",
    )


def test_a_narrow_terminal_breaks_no_name() -> None:
    name, long = "qwen2.5-coder:7b", "many words about it, " * 4
    console = Console(width=60)
    with console.capture() as output:
        console.print(table(("model", "state", "detail"), [(name, long, long)]))
    assert name in output.get()
