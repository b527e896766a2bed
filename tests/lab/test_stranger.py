"""`scripts/test` on a stranger's machine: systemd, cgroup v2, and nothing of ours before it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hearth.project import Project
from tests import lab_machine as lab
from tests.lab_machine import house
from tests.lab_machine.model import CACHE
from tests.mock_upstreams.ollama_archive import PASSED_ON

pytestmark = [pytest.mark.lab, pytest.mark.long]

ROOT = Path(__file__).parents[2]
NAME = "stranger"
SIZE_BYTES = 60 << 30
TEST_S = 5400
# The disks of the lab machines inside; the kernel's loop devices are shared with this machine.
LOOP_DEVICES = """
[ -e /dev/loop-control ] || mknod /dev/loop-control c 10 237
for n in $(seq 0 63); do [ -e /dev/loop$n ] || mknod /dev/loop$n b 7 $n; done
"""
# What `scripts/test --clean` must leave as it was.
STATE = """
dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n'
getent passwd | cut -d: -f1
cat /proc/sys/net/ipv4/ip_forward /proc/sys/fs/inotify/max_user_instances
ls -d /var/cache/hearth* /var/lib/hearth* /etc/hearth* /root/.ansible 2>/dev/null
nft list tables
ip -brief link | cut -d' ' -f1
systemctl list-unit-files --no-legend --state=enabled | cut -d' ' -f1
systemctl list-units --no-legend --plain --type=service --state=running | cut -d' ' -f1
findmnt --noheadings --list --output TARGET | grep hearth
git -C /root/hearth status --porcelain --ignored
true
"""


@pytest.fixture(scope="module")
def before() -> Iterator[str]:
    """A machine with a clone of this checkout; yields its state before the first command."""
    if NAME in {machine.name for machine in lab.load_all()}:
        lab.destroy(NAME, keep_packages=True, keep_cache=True)
    machine = lab.create(NAME, size_bytes=SIZE_BYTES)
    shell(LOOP_DEVICES)
    house.clone(Project(ROOT), NAME)
    # The overrides of a house in a lab machine belong to another test.
    shell("cd /root/hearth && git clean -fdxq inventory && rm -f /root/hearth.bundle")
    state = shell(STATE)
    # A copy: `--clean` removes it. Preparing it again would take half an hour.
    target = machine.root / (CACHE / "mock_upstreams").relative_to("/")
    shutil.copytree(CACHE / "mock_upstreams", target, symlinks=True)
    yield state
    lab.destroy(NAME, keep_packages=True, keep_cache=True)


def shell(script: str) -> str:
    """Run a script inside, which must succeed, and return its output."""
    return lab.run(NAME, ["/bin/bash", "-c", script], timeout=900, check=True).stdout


def run_tests(*options: str) -> str:
    """Run `scripts/test` inside, print its lines as they come, and return them."""
    sys.stdout.flush()
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    done = lab.run(
        NAME,
        ["/root/hearth/scripts/test", *options],
        timeout=TEST_S,
        env=env,
        stream_to=sys.stdout.buffer,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


@pytest.mark.usefixtures("before")
def test_the_core_tests_pass_there() -> None:
    output = run_tests()
    # A checkout of Kokoro-FastAPI to patch is the one thing that a stranger's machine lacks.
    assert ", 0 failed, 1 not run" in output
    assert "HEARTH_FASTAPI_DIR names no folder" in output


@pytest.mark.usefixtures("before")
def test_memory_and_disk_run_out_there_too() -> None:
    output = run_tests("--all", "--lab", "-k", "out_of_memory or full_disk")
    assert "2 passed, 0 failed" in output


def test_nothing_of_it_remains(before: str) -> None:
    run_tests("--clean")
    # Lines, so that a failure shows which.
    assert set(shell(STATE).splitlines()) ^ set(before.splitlines()) == set()
