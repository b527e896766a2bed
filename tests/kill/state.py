"""What a house in a lab machine consists of and what really runs, for comparisons."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests import lab_machine as lab

_LOOK = Path(__file__).with_name("look.py")
_LOOK_S = 300


def look(machine: str) -> dict[str, str]:
    """Return everything of a house by a name, such as `units/hearth-caddy.service/SubState`."""
    source = _LOOK.read_text(encoding="utf-8")
    # Its own source once more as input: it is passed on to the instances.
    argv = ["python3", "-c", source]
    done = lab.run(machine, argv, stdin=source, timeout=_LOOK_S)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(_flat("", json.loads(done.stdout)))


def differences(wanted: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Return how a house differs from another, and which processes are older than their files."""
    lines = [
        f"{name}: {found.get(name, 'nothing')}, and was {wanted.get(name, 'nothing')}"
        for name in sorted({*wanted, *found})
        if found.get(name) != wanted.get(name)
    ]
    return [*lines, *wrong(found)]


def wrong(found: Mapping[str, str]) -> list[str]:
    """Return what is wrong with a house by itself, without a comparison."""
    good = {
        "ActiveState": "active",
        "NeedDaemonReload": "no",
        "older than": "",
        "caddy": "as its file",
    }
    return [
        f"{name}: {value}"
        for name, value in sorted(found.items())
        if (last := name.rpartition(" / ")[2]) in good
        and value != good[last]
        # A timer's service is inactive in between, and the guard of sandboxes without any.
        and not (last == "ActiveState" and re.search("hearth-(backup|sandboxes)", name))
    ]


def _flat(above: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _flat(f"{above}{'' if not above else ' / '}{key}", below)
    else:
        yield above, value if isinstance(value, str) else json.dumps(value)
