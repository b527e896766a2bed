"""A lab machine that is destroyed leaves nothing on the machine around it."""

import json
import subprocess
from pathlib import Path

import pytest

from tests import lab_machine as lab
from tests.lab.house import NAME, House, remove

pytestmark = pytest.mark.lab


def test_destroy_leaves_nothing(house: House) -> None:
    outer = lab.load(NAME).outer_address
    before = traces(outer)
    unseen = [what for what, found in before.items() if not found]
    assert not unseen, f"these cannot be seen even while the machine is there: {unseen}"
    remove()
    left = {what: found for what, found in traces(outer).items() if found}
    assert not left, json.dumps(left, indent=1)


def traces(outer: str) -> dict[str, list[str]]:
    """Return what remains of this lab machine on the outer one."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    loops = subprocess.run(["losetup", "-l"], capture_output=True, text=True, check=True)
    links = subprocess.run(["ip", "-o", "address"], capture_output=True, text=True, check=True)
    commands = [_command(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
    return {
        "mounts": [line for line in mounts if NAME in line],
        "loop devices": [line for line in loops.stdout.splitlines() if NAME in line],
        "interfaces": [line for line in links.stdout.splitlines() if NAME in line],
        # The machine's own, its resolver, and the mock upstreams at its end of the link.
        "processes": [text for text in commands if f"/{NAME}/" in text or f" {outer} " in text],
        "folders": [str(path) for path in Path("/var/lib/hearth-lab").glob(f"{NAME}*")],
    }


def _command(path: Path) -> str:
    try:
        return path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
