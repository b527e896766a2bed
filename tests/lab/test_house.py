"""A whole house, from a bare lab machine to nothing again, as a user would do it.

The tests build on each other and run in the order of this file; the first failure that makes the
rest meaningless ends them. Each says how many minutes of its share it took.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hearth import lab

pytestmark = pytest.mark.lab

ROOT = Path(__file__).parents[2]
NAME = "test-house"
CLONE = "/root/hearth"
# How many minutes each part may take of the 20 that CI has, with warm caches.
SHARES_MIN = {"up": 7.0, "answer": 0.5, "again": 1.5, "reboot": 2.0, "verify": 2.0, "gone": 0.5}
UP_S = 2400
GREEN_S = 300


@dataclass(slots=True)
class Run:
    """What the tests of this file share: where the lab's things are, and the ledger."""

    folder: Path = ROOT / ".hearth" / "lab" / NAME
    minutes: dict[str, float] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)

    def inside(self, *argv: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a command in the lab machine and return its output."""
        return lab.run(NAME, argv, timeout=timeout)

    def hearth(self, *words: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run `hearth` in the lab machine."""
        return self.inside(f"{CLONE}/scripts/hearth", *words, timeout=timeout)

    def spent(self, part: str, began: float) -> None:
        """Note the minutes of a part, and say when they are over its share."""
        self.minutes[part] = (time.monotonic() - began) / 60
        share = SHARES_MIN[part]
        over = f", over its share of {share:g}" if self.minutes[part] > share else ""
        print(f"\n{part}: {self.minutes[part]:.1f} min{over}", flush=True)


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    if os.geteuid() != 0:
        pytest.fail("the lab needs root: say `sudo scripts/test`")
    _remove()
    shared = Run()
    yield shared
    _remove()
    print("\nFigures: " + json.dumps(shared.figures, indent=1), flush=True)


def _remove() -> None:
    """Remove the machine, whole or half; the package caches stay."""
    for machine in lab.load_all():
        if machine.name == NAME:
            lab.destroy(NAME, keep_packages=True, keep_cache=True)


def traces() -> dict[str, list[str]]:
    """Return what of this lab machine is left on the outer one."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    loops = subprocess.run(["losetup", "-l"], capture_output=True, text=True, check=True)
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if _mine(path)]
    return {
        "mounts": [line for line in mounts if NAME in line],
        "loop devices": [line for line in loops.stdout.splitlines() if NAME in line],
        "interfaces": [line for line in links.stdout.splitlines() if NAME in line],
        "processes": [text.replace(b"\0", b" ").decode(errors="replace") for text in commands],
        "folders": [str(path) for path in Path("/var/lib/hearth-lab").glob(f"{NAME}*")],
    }


def _mine(path: Path) -> bool:
    """Say whether a process belongs to the machine: by its command line, not by this test's."""
    try:
        words = path.read_bytes()
    except OSError:
        return False
    return f"/{NAME}/".encode() in words or f"--machine={NAME}".encode() in words


def test_up_ends_with_a_receipt(run: Run) -> None:
    began = time.monotonic()
    argv = [str(ROOT / "scripts/up"), "--lab", "--lab-name", NAME]
    done = subprocess.run(
        argv, cwd="/", stdout=subprocess.PIPE, text=True, check=False, timeout=UP_S
    )
    sys.stdout.write(done.stdout)
    run.spent("up", began)
    if done.returncode != 0:
        pytest.exit("scripts/up failed, so there is no house to test", returncode=1)
    receipt = json.loads((run.folder / "receipt" / "receipt.json").read_text())
    assert receipt["good"], receipt["summary"]
    assert receipt["figures"]
    assert "curl --cacert" in done.stdout


def ask(run: Run, model: str, key: str | None, *more: str) -> tuple[int, dict[str, Any], str]:
    """Ask as a device on the LAN would; return the status, the answer, and the headers."""
    address = lab.address(NAME)
    argv = ["curl", "--silent", "--show-error", "--max-time", "120", "--include"]
    argv += ["--cacert", str(run.folder / "root.crt"), "--resolve", f"llm.lan:443:{address}"]
    if key:
        argv += ["--header", "@-"]
    body = {"model": model, "messages": [{"role": "user", "content": "What is 2 + 2?"}]}
    argv += ["--json", json.dumps(body | {"max_tokens": 16}), *more]
    done = subprocess.run(
        [*argv, "https://llm.lan/v1/chat/completions"],
        input=f"Authorization: Bearer {key}" if key else "",
        capture_output=True,
        text=True,
        check=True,
        timeout=150,
    )
    head, _, text = done.stdout.partition("\r\n\r\n")
    return int(head.split()[1]), json.loads(text), head.lower()


def key_of(run: Run) -> str:
    """Return a consumer's key, as its owner would get it."""
    done = run.hearth("secret", "show", "consumer_household", "--plain")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_device_gets_an_answer_from_ollama(run: Run) -> None:
    began = time.monotonic()
    status, answer, head = ask(run, "fast", key_of(run))
    assert status == 200, answer
    assert answer["choices"][0]["message"]["content"].strip()
    assert f"x-hearth-model: {answer['model'].lower()}" in head
    assert ask(run, "fast", None)[0] == 401
    run.spent("answer", began)


def test_without_the_root_a_device_believes_nothing(run: Run) -> None:
    address = lab.address(NAME)
    argv = ["curl", "--silent", "--max-time", "20", "--resolve", f"llm.lan:443:{address}"]
    done = subprocess.run([*argv, "https://llm.lan/"], capture_output=True, check=False)
    assert done.returncode == 60, "curl believed a certificate that nobody vouched for"


def test_a_second_run_changes_nothing(run: Run) -> None:
    began = time.monotonic()
    argv = [f"{CLONE}/.venv/bin/ansible-playbook", "site.yml"]
    script = f"cd {CLONE} && ANSIBLE_NOCOLOR=1 exec {' '.join(argv)}"
    done = run.inside("/bin/bash", "-c", script, timeout=600)
    run.figures["no-change site.yml, s"] = round(time.monotonic() - began, 1)
    assert done.returncode == 0, done.stdout[-3000:]
    changed = re.findall(r"changed=(\d+)", done.stdout)
    assert changed, done.stdout[-3000:]
    assert set(changed) == {"0"}, done.stdout[-6000:]
    run.spent("again", began)


def test_after_a_reboot_everything_is_green(run: Run) -> None:
    began = time.monotonic()
    lab.reboot(NAME)
    deadline = time.monotonic() + GREEN_S
    while (done := run.hearth("status", "--json")).returncode != 0:
        assert time.monotonic() < deadline, done.stdout + done.stderr
        time.sleep(1)
    run.figures["reboot until all is green, s"] = round(time.monotonic() - began, 1)
    run.spent("reboot", began)


def test_the_rebooted_house_passes_its_smoke_tests(run: Run) -> None:
    began = time.monotonic()
    done = run.hearth("verify", timeout=600)
    print(done.stdout, flush=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    run.spent("verify", began)


def test_destroy_leaves_nothing(run: Run) -> None:
    began = time.monotonic()
    assert any(traces().values()), "the machine cannot be seen from outside: the test sees nothing"
    _remove()
    left = {what: found for what, found in traces().items() if found}
    assert not left, json.dumps(left, indent=1)
    run.spent("gone", began)
