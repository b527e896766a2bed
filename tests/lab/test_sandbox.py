"""Sandboxes of a running house: quick, without secrets, closed on all sides, and few."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hearth.sandbox.lifecycle import MOST
from tests import lab_machine as lab
from tests.lab.house import CLONE, NAME, House, changed

pytestmark = pytest.mark.lab

READY_S = 5
# A sweep every ten seconds, and a moment to delete.
SWEPT_S = 25
ROOTS = "/var/lib/incus/storage-pools/hearth/containers"
KEY = "user.hearth.sandbox"
UNIT = "/etc/systemd/system/kokoro.service"
# By folder, the names of the vault's secrets that are in any file below it.
SEARCH = """
import json, os, sys
from hearth.project import current
values = {n: v.encode() for n, v in current().vault.values().items() if len(v) > 11}

def search(root):
    found, files = set(), 0
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                try:
                    data = open(path, "rb").read()
                except FileNotFoundError:
                    # A running system removes files of /run all the time.
                    continue
                files += 1
                found |= {n for n, v in values.items() if v in data}
    assert files > 2, (root, files)
    return sorted(found)

print(json.dumps([search(root) for root in sys.argv[1:]]))
"""
# Every address in argv as ADDRESS:PORT; those that a program of a sandbox reaches.
REACH = """
import socket, sys
for target in sys.argv[1:]:
    host, _, port = target.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        one = socket.socket(family, kind)
        one.settimeout(2)
        try:
            one.connect((host, int(port)))
            print(target)
        except ConnectionRefusedError:
            # Its own loopback is the only place that can refuse.
            print(target, "refuses")
        except OSError:
            pass
"""
# As many processes as it gets, of two thousand.
FORK = """
import os, time
count = 0
for _ in range(2000):
    try:
        if os.fork() == 0:
            time.sleep(8)
            os._exit(0)
    except OSError:
        break
    count += 1
print(count, flush=True)
"""


class Sandboxes:
    """`hearth sandbox` in the lab machine."""

    def __init__(self, house: House) -> None:
        self.house = house

    def do(self, *words: str, given: str = "", timeout: float = 120) -> Any:
        """Run one command that must succeed, and return its JSON or its text."""
        done = self.try_(*words, given=given, timeout=timeout)
        assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        return json.loads(done.stdout) if "--json" in words else done.stdout

    def try_(
        self, *words: str, given: str = "", timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run one command."""
        argv = [f"{CLONE}/scripts/hearth", "sandbox", *words]
        return lab.run(NAME, argv, stdin=given, timeout=timeout)

    def create(self, *words: str) -> dict[str, Any]:
        """Create one, and return its description."""
        return dict(self.do("create", *words, "--json"))

    def python(self, name: str, program: str, *argv: str, timeout_s: int = 30) -> str:
        """Run a Python program in one."""
        words = ("run", "--timeout", str(timeout_s), name, "--", "python3", "-", *argv)
        return str(self.do(*words, given=program))

    def names(self) -> set[str]:
        """Return the names of all."""
        return {one["name"] for one in self.do("list", "--json")}

    def delete_except(self, names: set[str]) -> None:
        """Delete all others; the guard may be faster."""
        for name in self.names() - names:
            self.house.inside("incus", "delete", "--force", name)
        assert self.names() <= names

    def pretend(self, name: str, **times: float) -> None:
        """Have an instance that claims to be one."""
        keys = {KEY: "kokoro", "user.hearth": "1"}
        keys |= {f"{KEY}.{key}": str(value) for key, value in times.items()}
        config = " ".join(f"-c {key}={value}" for key, value in keys.items())
        self.house.shell(f"incus init --empty {name} -s hearth {config} </dev/null")


def until(what: str, found: Callable[[], object], within_s: float) -> float:
    """Wait until it is so, and return how long that took."""
    began = time.monotonic()
    while not found():
        assert time.monotonic() - began < within_s, what
        time.sleep(0.5)
    return time.monotonic() - began


@pytest.fixture(scope="module")
def sandboxes(house: House) -> Iterator[Sandboxes]:
    all_of_them = Sandboxes(house)
    # Agents of other tests may have left some, which live for an hour.
    all_of_them.delete_except(set())
    yield all_of_them
    all_of_them.delete_except(set())


@pytest.fixture(autouse=True)
def _nothing_is_left(sandboxes: Sandboxes) -> Iterator[None]:
    """Delete what a test left, even if it failed: the next one counts them."""
    before = sandboxes.names()
    yield
    sandboxes.delete_except(before)


@pytest.fixture(scope="module")
def kokoro(sandboxes: Sandboxes) -> dict[str, Any]:
    return sandboxes.create("kokoro")


def test_a_copy_of_kokoro_is_ready_within_five_seconds(
    kokoro: dict[str, Any], house: House
) -> None:
    house.figures["sandbox ready, s"] = kokoro["ready_s"]
    assert kokoro["ready_s"] <= READY_S
    # The service itself was not disturbed.
    assert house.hearth("status", "--json").returncode == 0


def search(house: House, instance: str) -> Any:
    """Search an instance's disk, and what systemd mounted in its /run, such as credentials."""
    state = json.loads(house.shell(f"incus query /1.0/instances/{instance}/state </dev/null"))
    argv = [f"{CLONE}/.venv/bin/python", "-", f"{ROOTS}/{instance}/rootfs"]
    argv.append(f"/proc/{state['pid']}/root/run")
    script = f"import os; os.chdir('{CLONE}')\n{SEARCH}"
    environment = ["/usr/bin/env", f"PYTHONPATH={CLONE}", f"HEARTH_PROJECT={CLONE}"]
    done = lab.run(NAME, [*environment, *argv], stdin=script, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_no_secret_of_the_house_is_in_a_copy(sandboxes: Sandboxes, house: House) -> None:
    # The same search finds those of an original, in both places.
    assert ["litellm_master_key" in names for names in search(house, "litellm")] == [True, True]
    name = sandboxes.create("litellm")["name"]
    assert search(house, name) == [[], []]
    # Its units start with random credentials of the same shape.
    listed = sandboxes.do("run", name, "--", "ls", "/etc/hearth/credentials/litellm")
    assert "litellm_master_key" in listed
    sandboxes.do("delete", name)


@pytest.mark.long
def test_no_secret_of_the_house_is_in_a_copy_of_any_service(
    sandboxes: Sandboxes, house: House
) -> None:
    described = json.loads(house.shell("cat /etc/hearth/house.json"))["services"]
    for service in [name for name, one in described.items() if one["runtime"] == "incus"]:
        name = sandboxes.create(service)["name"]
        assert search(house, name) == [[], []], service
        sandboxes.do("delete", name)


def test_nothing_that_people_said_is_in_a_copy(sandboxes: Sandboxes, house: House) -> None:
    said = "what-only-the-family-said"
    # The chat's cache of spoken answers is no volume.
    files = "/var/cache/open-webui/said /var/cache/said /var/tmp/said"
    inside = "incus exec open-webui -- sh -ec"
    house.shell(f"{inside} 'for f in {files}; do echo {said} >$f; done' </dev/null")
    try:
        name = sandboxes.create("open_webui")["name"]
        look = f"grep -rlsF {said} {ROOTS}/{{}}/rootfs --include=said* || true"
        assert len(house.shell(look.format("open-webui")).split()) == 3
        assert house.shell(look.format(name)) == ""
    finally:
        house.shell(f"{inside} 'rm -f {files}' </dev/null")


def test_a_copy_reaches_no_neighbour_no_machine_and_nothing_outside(
    sandboxes: Sandboxes, kokoro: dict[str, Any], house: House
) -> None:
    name = kokoro["name"]
    lan = house.shell("ip -4 -o route get 192.0.2.1 2>/dev/null | grep -oP 'src \\K\\S+' || true")
    targets = [
        *("10.140.30.10:11434", "10.140.30.14:4000", "10.140.30.1:53", "192.0.2.1:443"),
        *("169.254.0.1:53", "fe80::1:53", "2001:db8::1:443"),
        *([f"{lan.strip()}:443", f"{lan.strip()}:22"] if lan.strip() else []),
    ]
    reached = sandboxes.python(name, REACH, *targets, timeout_s=60).splitlines()
    assert reached == []
    links = sandboxes.do("run", name, "--", "ip", "-brief", "link").split("\n")
    assert [line.split()[0] for line in links if line] == ["lo"]
    assert sandboxes.try_("run", name, "--", "ls", "/dev/incus").returncode != 0
    # The neighbours do answer: the test is not empty.
    house.shell("curl -sf --max-time 5 http://10.140.30.10:11434/api/version >/dev/null")


def test_a_unit_is_broken_mended_probed_and_the_change_is_shown(
    sandboxes: Sandboxes, kokoro: dict[str, Any], house: House
) -> None:
    name = kokoro["name"]
    text = sandboxes.do("read", name, UNIT)
    sandboxes.do("write", name, UNIT, given=text.replace("[Service]", "[Service]\nNice=5"))
    sandboxes.do("run", name, "--", "touch", "/opt/new")
    argv = "systemctl daemon-reload && systemd-run --unit web python3 -m http.server 8123"
    sandboxes.do("run", name, "--", "sh", "-c", argv)
    until("a server answers", lambda: not sandboxes.try_("probe", name, "8123").returncode, 10)
    found = sandboxes.do("diff", name, "--json")
    changes = {one["path"]: one for one in found["changes"]}
    assert changes[UNIT]["kind"] == "changed"
    assert "+Nice=5" in changes[UNIT]["text"]
    assert changes["/opt/new"]["kind"] == "added"
    assert found["left_out"] == []
    # What a system does by itself is not in the way.
    assert len(changes) < 10, sorted(changes)
    assert "Nice=5" not in house.shell(f"cat {ROOTS}/kokoro/rootfs{UNIT}")


def test_output_and_time_of_a_command_are_bounded(
    sandboxes: Sandboxes, kokoro: dict[str, Any]
) -> None:
    name = kokoro["name"]
    flood = "head -c 100M /dev/zero | tr '\\0' x; echo end"
    ran = sandboxes.do("run", "--json", name, "--", "sh", "-c", flood)
    assert ran["cut"] > 99 << 20
    assert ran["stdout"].endswith("end\n")
    late = sandboxes.try_("run", "--timeout", "2", name, "--", "sleep", "60")
    assert late.returncode == 1
    assert "killed after 2 s" in late.stderr


def test_a_fork_bomb_stays_small_and_the_house_answers(
    sandboxes: Sandboxes, kokoro: dict[str, Any], house: House
) -> None:
    count = int(sandboxes.python(kokoro["name"], FORK).split()[0])
    assert count < 520
    house.shell("curl -sf --max-time 5 http://10.140.30.10:11434/api/version >/dev/null")


def test_one_that_fills_the_disk_is_stopped_and_says_so(sandboxes: Sandboxes) -> None:
    name = sandboxes.create("--empty")["name"]
    fill = "for i in 1 2; do head -c 700M /dev/urandom >/root/$i; done"
    sandboxes.try_("run", "--timeout", "60", name, "--", "sh", "-c", fill)

    def noted() -> bool:
        rows = {one["name"]: one for one in sandboxes.do("list", "--json")}
        return "wrote more than 1024 MiB" in rows[name]["note"] and not rows[name]["running"]

    # Within a look every half a minute, if compression hides what was written.
    until("the guard stops it", noted, 40)
    refused = sandboxes.try_("run", name, "--", "true")
    assert "wrote more than 1024 MiB" in refused.stderr
    sandboxes.do("delete", name)


def test_nine_are_too_many_and_the_house_ignores_them_all(
    sandboxes: Sandboxes, kokoro: dict[str, Any], house: House
) -> None:
    now, before = time.time(), sandboxes.names()
    pretended = {f"sb-0000000{number}" for number in range(MOST - len(before))}
    for name in pretended:
        sandboxes.pretend(name, made=now, ready=now, ends=now + 600)
    refused = sandboxes.try_("create", "kokoro")
    assert refused.returncode == 1
    assert "there are 8 sandboxes, which is the limit" in refused.stderr
    assert changed(house.site("--tags", "instances")) == 0
    done = house.hearth("doctor", "--json")
    assert "sb-" not in done.stdout, done.stdout
    assert house.hearth("status", "--json").returncode == 0
    # Neither the refused creation nor the house changed anything about them.
    assert sandboxes.names() == before | pretended


def test_each_is_deleted_in_time_although_the_guard_was_killed(
    sandboxes: Sandboxes, house: House
) -> None:
    now = time.time()
    made = sandboxes.create("--empty", "--seconds", "10")
    short = made["name"]
    sandboxes.pretend("sb-0000000a", made=now - 3600, ends=now + 600)
    house.shell("systemctl kill --signal=KILL hearth-sandboxes.service")
    until("both are deleted", lambda: not {short, "sb-0000000a"} & sandboxes.names(), 10 + SWEPT_S)
    house.figures["sandbox deleted after its end, s"] = time.time() - made["ends"]
    assert sandboxes.try_("delete", "kokoro").returncode == 1
    house.shell(f"test -d {ROOTS}/kokoro && test ! -e {ROOTS}/{short}")
