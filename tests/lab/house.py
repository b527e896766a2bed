"""The one house that all lab tests share: requests to it, commands in it, and its figures."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests import lab_machine as lab

ROOT = Path(__file__).parents[2]
NAME, GUEST = "test-house", "test-guest"
CLONE = "/root/hearth"
OVERLAY = f"{CLONE}/inventory/local/services.yml"
UP = [str(ROOT / "scripts/up"), "--lab", "--lab-name", NAME]
UP_S = 2400
# A part of what `hearth verify` runs, chosen by an expression of pytest.
SMOKE = (
    f"cd {CLONE}; exec .venv/bin/python -m pytest -c hearth/smoke/pytest.ini hearth/smoke "
    "--rootdir . -p hearth.smoke.plugin"
)
ANSIBLE_S = 600
GREEN_S = 180
# Of a house that is running; Incus and Ollama write to other places all the time.
TREES = ("/etc", "/var/lib/hearth")
_RECAP = re.compile(r"^(\S+)\s+: ok=\d+\s+changed=(\d+) ", re.MULTILINE)
# Every rule is removed. Incus's own rules for its bridges return only when Incus restarts.
FLUSH = (
    "nft list table inet incus >/tmp/incus.nft 2>/dev/null || true; nft flush ruleset; "
    "nft -f /tmp/incus.nft"
)


@dataclass(slots=True)
class Answer:
    """The response to a request over HTTPS."""

    status: int
    head: str
    text: str

    @property
    def json(self) -> Any:
        """The JSON of the response."""
        return json.loads(self.text)


@dataclass(frozen=True, slots=True)
class Output:
    """How a command ended, and its lines with the seconds after which each was printed."""

    returncode: int
    lines: list[tuple[float, str]]
    ended_s: float

    @property
    def text(self) -> str:
        """Everything that it printed."""
        return "".join(line for _, line in self.lines)

    @property
    def longest_silence(self) -> tuple[float, str]:
        """The longest time without a line, in seconds, and the line before it."""
        ends = [*self.lines[1:], (self.ended_s, "")]
        gaps = [
            (after - before, line)
            for (before, line), (after, _) in zip(self.lines, ends, strict=True)
        ]
        return max(gaps)

    def when(self, text: str) -> float:
        """Return after how many seconds it printed a text."""
        return next(seconds for seconds, line in self.lines if text in line)


def up(*options: str) -> Output:
    """Run `scripts/up --lab` from here, as a user would, and print its lines as they come."""
    began, lines = time.monotonic(), []
    with subprocess.Popen(
        [*UP, *options], cwd="/", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout
        late = threading.Timer(UP_S, process.kill)
        late.start()
        for line in process.stdout:
            lines.append((time.monotonic() - began, line))
            sys.stdout.write(line)
        late.cancel()
    return Output(process.returncode, lines, time.monotonic() - began)


@dataclass(slots=True)
class House:
    """The lab machine with the house in it, and the figures that its tests measured."""

    folder: Path = ROOT / ".hearth" / "lab" / NAME
    # What the machine consisted of before the house was built; empty where a saved disk was used.
    bare: dict[str, set[str]] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)

    def inside(
        self, *argv: str, timeout: float = 300, check: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the machine and return its output."""
        return lab.run(NAME, argv, timeout=timeout, check=check)

    def shell(self, script: str, timeout: float = 300) -> str:
        """Run a script in the machine, which must succeed, and return its output."""
        argv = ["/bin/bash", "-c", f"set -euo pipefail\n{script}"]
        done = lab.run(NAME, argv, timeout=timeout)
        assert done.returncode == 0, f"{script}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    def hearth(self, *words: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run `hearth` in the machine."""
        return self.inside(f"{CLONE}/scripts/hearth", *words, timeout=timeout)

    def up(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `hearth up` in the machine, as `scripts/up` does when everything is installed."""
        return self.hearth("up", *words, timeout=ANSIBLE_S)

    def site(self, *options: str) -> dict[str, int]:
        """Run site.yml by itself; return how many tasks changed each host."""
        script = f'cd {CLONE}; ANSIBLE_NOCOLOR=1 exec .venv/bin/ansible-playbook site.yml "$@"'
        done = self.inside("/bin/bash", "-c", script, "site", *options, timeout=ANSIBLE_S)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        counted = dict(recap(done.stdout))
        assert counted, done.stdout[-3000:]
        return counted

    def wait_green(self) -> None:
        """Wait until `hearth status` reports that all is up, as a person would."""
        wait_green(NAME)

    def wait_page_green(self) -> None:
        """Wait until the house's page shows no fault either: it follows some seconds later."""
        self.wait_green()
        deadline = time.monotonic() + GREEN_S
        while True:
            text = self.inside("/bin/cat", "/run/hearth-watch/snapshot.json", check=True).stdout
            shown = json.loads(text)
            red = [row["name"] for row in shown["rows"] if not row["up"]]
            if not (red or shown["findings"]):
                return
            assert time.monotonic() < deadline, (red, shown["findings"])
            time.sleep(0.5)

    def converge(self, instance: str, *options: str) -> dict[str, int]:
        """Run site.yml for the machine and one instance; the others stay as they are."""
        return self.site("--limit", f"localhost,house,{instance}", *options)

    def back_to(self, tag: str) -> None:
        """Restore a saved state of the machine, with the house up."""
        lab.restore(NAME, tag)
        self.wait_green()

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text in a file of the machine's overlay, as a user edits it."""
        path = f"{CLONE}/inventory/local/{name}"
        text = self.inside("/bin/cat", path, check=True).stdout
        assert old in text, text
        put = ["/usr/bin/install", "-m", "644", "/dev/stdin", path]
        lab.run(NAME, put, stdin=text.replace(old, new, 1), check=True)

    def set(self, service: str, settings: Mapping[str, Any]) -> str:
        """Give a service's record settings for its role, as a user does; return the old file."""
        before = self.inside("/bin/cat", OVERLAY, check=True).stdout
        content = yaml.safe_load(before)
        content["services"].setdefault(service, {})["settings"] = dict(settings)
        self.overlay(yaml.safe_dump(content))
        return before

    def lay_over(self, folder: Path) -> None:
        """Lay the files of a folder over those of the house's own inventory."""
        for path in sorted(folder.glob("*.yml")):
            there = f"{CLONE}/inventory/local/{path.name}"
            old = yaml.safe_load(self.shell(f"cat {there} 2>/dev/null || true")) or {}
            text = yaml.safe_dump(over(old, yaml.safe_load(path.read_text(encoding="utf-8"))))
            put = ["/usr/bin/install", "-m", "644", "/dev/stdin", there]
            lab.run(NAME, put, stdin=text, check=True)

    def overlay(self, text: str) -> None:
        """Write the overlay of the services."""
        put = ["/usr/bin/install", "-m", "644", "/dev/stdin", OVERLAY]
        lab.run(NAME, put, stdin=text, check=True)

    def receipt(self) -> dict[str, Any]:
        """Return the last receipt."""
        text = self.inside("/bin/cat", "/var/lib/hearth/receipt/receipt.json", check=True).stdout
        return dict(json.loads(text))

    def key(self) -> str:
        """Return a consumer's key, as its owner would get it."""
        done = self.hearth("secret", "show", "consumer_household", "--plain")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def state(self, *trees: str) -> dict[str, str]:
        """Return what a preview must not change: a digest of each tree, and the packages."""
        # Files that systemd, its timers and the watcher change by themselves are left out, and the
        # note of each run about itself.
        look = (
            'cd "$0"; find . -xdev \\( -path ./systemd -o -path ./private -o -path ./watch '
            "-o -path ./last-run.json \\) -prune -o -type f -exec sha256sum {} + "
            "-o -printf '%y %m %U:%G %p %l\\n' | sort | sha256sum"
        )
        digests = {
            tree: self.inside("/bin/sh", "-c", look, tree, check=True).stdout.split()[0]
            for tree in trees
        }
        return digests | {"packages": self.inside("dpkg-query", "-W", check=True).stdout}

    def processes(self) -> dict[str, str]:
        """Return the main process of each unit of the house: a restart changes its ID."""
        script = (
            "for u in dnsmasq login caddy; do printf '%s ' $u; "
            "systemctl show -p MainPID --value hearth-$u.service; done; "
            "for u in ollama ollama-proxy ollama-models litellm kokoro whisper pipelines "
            "open-webui; do printf '%s ' $u; i=$u; case $u in ollama-*) i=ollama;; esac; "
            "incus exec $i -- systemctl show -p MainPID --value $u.service </dev/null; done"
        )
        return dict(line.split() for line in self.shell(script).splitlines())


def over(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return a file of the inventory with another one laid over it."""
    both = [name for name in old.keys() & new if isinstance(old[name], dict)]
    return {**old, **new, **{name: over(old[name], new[name] or {}) for name in both}}


def ask(
    machine: str | None,
    root: str | None,
    model: str,
    key: str | None,
    *more: str,
    address: str = "https://llm.lan/v1/chat/completions",
) -> Answer:
    """Send a request as a device on the LAN, from a lab machine or (`None`) from here.

    The key is passed on standard input, so that no process list shows it.
    """
    argv = ["curl", "--silent", "--show-error", "--max-time", "120", "--include", *more]
    argv += ["--cacert", root] if root else []
    argv += ["--header", "@-"] if key else []
    body = {"model": model, "messages": [{"role": "user", "content": "What is 2 + 2?"}]}
    argv += ["--json", json.dumps(body | {"max_tokens": 16}), address]
    given = f"Authorization: Bearer {key}" if key else ""
    if machine is None:
        done = subprocess.run(
            argv, input=given, capture_output=True, text=True, check=False, timeout=150
        )
    else:
        done = lab.run(machine, argv, stdin=given, timeout=150)
    if done.returncode:
        return Answer(0, f"curl: exit {done.returncode}", done.stderr)
    head, _, text = done.stdout.replace("\r\n", "\n").partition("\n\n")
    return Answer(int(head.split()[1]), head.lower(), text)


def wait_green(machine: str, within_s: float = GREEN_S) -> None:
    """Wait until `hearth status` reports that all is up in a lab machine, its models included."""
    deadline = time.monotonic() + within_s
    words = [f"{CLONE}/scripts/hearth", "status", "--json"]
    while (done := lab.run(machine, words, timeout=300)).returncode != 0:
        assert time.monotonic() < deadline, done.stdout[-3000:] + done.stderr
        time.sleep(0.5)


def recap(output: str) -> list[tuple[str, int]]:
    """Parse each host, and how many tasks changed it, from the recap that Ansible prints."""
    return [(host, int(count)) for host, count in _RECAP.findall(output)]


def changed(counts: Mapping[str, int]) -> int:
    """Return how many tasks changed anything."""
    return sum(counts.values())


def remove() -> None:
    """Remove the machines, complete or not; the package caches stay."""
    known = {machine.name for machine in lab.load_all()}
    for name in (GUEST, NAME):
        if name in known:
            lab.destroy(name, keep_packages=True, keep_cache=True)
