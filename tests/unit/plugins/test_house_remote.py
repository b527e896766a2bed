"""From outside, site.yml touches nothing of this machine: it has the house's own machine run it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.role_data import ROOT
from tests.unit.plugins.by_path import plugin

FAKE = """#!/usr/bin/env python3
import json, pathlib, re, sys
here, line = pathlib.Path(__file__).parent, sys.argv[-1]
data = sys.stdin.buffer.read()
command = line.rstrip("'").rpartition(" ")[2]
if command == "state":
    state = {"commit": (here / "commit").read_text().strip(), "holder": "", "recorded": ""}
    print("--hearth--\\n" + json.dumps(state))
elif command == "follow":
    options = json.loads(data[int(re.search(r"read\\((\\d+)\\)", line)[1]) :])
    (here / "values").write_text(options.pop("values"))
    (here / "request").write_text(line + json.dumps(options))
    print((here / "output").read_text(), flush=True)
    sys.exit(int((here / "code").read_text()))
"""
RECAP = "{host:<26} : ok=9    changed={n}    unreachable=0    failed=0    skipped=1    rescued=0"
WITHIN_S = 120


class Outside:
    """A controller whose inventory names another machine, behind an ssh that reaches no host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "inventory", folder / "inventory", ignore=_own)
        (folder / "inventory/local").mkdir()
        reach = "machines: {house: {reach: 'ssh://ann@house.example'}}\n"
        (folder / "inventory/local/machines.yml").write_text(reach)
        (folder / "ssh").write_text(FAKE)
        (folder / "ssh").chmod(0o755)
        words = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
        head = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60)
        (folder / "commit").write_text(head.stdout)

    def there(self, code: int, *recap: str) -> None:
        """Set how the run there ends."""
        (self.folder / "code").write_text(str(code))
        (self.folder / "output").write_text("\n".join(["TASK [Write the rules]", *recap]))

    def run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "ANSIBLE_NOCOLOR": "1",
        }
        inventory = str(self.folder / "inventory/machines.yml")
        path = str(Path(sys.executable).with_name(program))
        return subprocess.run(
            [path, "-i", inventory, *words],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )


def _own(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name in ("local", "secrets.yml", "host_vars")]


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    return Outside(tmp_path)


def test_only_the_first_play_has_a_host_here(outside: Outside) -> None:
    done = outside.run("ansible-playbook", "site.yml", "--list-hosts")
    assert done.returncode == 0, done.stderr
    hosts = {}
    for play in done.stdout.split("\n  play #")[1:]:
        name = play.partition("(")[2].partition(")")[0]
        hosts[name] = play.partition("hosts (")[2].partition("):")[0]
    assert hosts.pop("remote") != "0"
    assert len(hosts) >= 3
    assert set(hosts.values()) == {"0"}


def test_remote_results_are_reported_here(outside: Outside) -> None:
    outside.there(0, RECAP.format(host="house", n=0), RECAP.format(host="litellm", n=2))
    done = outside.run("ansible-playbook", "site.yml", "--limit", "litellm")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "TASK [Write the rules]" in done.stdout
    assert "ok=1    changed=1 " in done.stdout.rpartition("PLAY RECAP")[2]
    request = (outside.folder / "request").read_text()
    assert "ansible-playbook site.yml --limit litellm" in request
    assert "environment controller" in request


def test_nothing_changed_there_is_nothing_changed_here(outside: Outside) -> None:
    outside.there(0, RECAP.format(host="house", n=0), RECAP.format(host="litellm", n=0))
    done = outside.run("ansible-playbook", "site.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok=1    changed=0 " in done.stdout.rpartition("PLAY RECAP")[2]


def test_a_run_that_fails_there_fails_here(outside: Outside) -> None:
    outside.there(2, RECAP.format(host="house", n=1))
    done = outside.run("ansible-playbook", "site.yml")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "the run on house.example failed" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, ""),
        ({"tags": ["all"], "skip_tags": (), "verbosity": 0, "check": False, "subset": None}, ""),
        ({"check": True, "diff": True}, "--check --diff"),
        ({"tags": ["caddy", "dnsmasq"], "skip_tags": ["a"]}, "--tags caddy,dnsmasq --skip-tags a"),
        ({"subset": "litellm,house", "verbosity": 3}, "--limit litellm,house -vvv"),
    ],
)
def test_the_options_of_a_run_apply_remotely(given: dict[str, object], words: str) -> None:
    assert plugin("action", "house_remote").options(given) == words.split()


def test_extra_vars_apply_remotely_and_are_on_no_command_line(outside: Outside) -> None:
    outside.there(0, RECAP.format(host="house", n=0))
    file = outside.folder / "more.yml"
    file.write_text("key: s3cret\nports: [1]\n")
    given = ("-e", "a='b c'", "-e", f"@{file}", "-e", '{"ports": [2], "day": "${HOME}"}')
    done = outside.run("ansible-playbook", "site.yml", *given)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((outside.folder / "values").read_text()) == {
        **{"a": "b c", "key": "s3cret", "ports": [2], "day": "${HOME}"}
    }
    request = (outside.folder / "request").read_text()
    assert r"site.yml -e \"@$RUNTIME_DIRECTORY/values.json\"" in request
    assert "s3cret" not in request
    assert "HOME}" not in request
