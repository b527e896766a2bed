"""What a house in a lab machine is made of and what really runs, to be compared."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests import lab_machine as lab

_LOOK = Path(__file__).with_name("look.py")
_LOOK_S = 300


def look(machine: str) -> dict[str, str]:
    """Return everything of a house by a name, such as `units/hearth-caddy.service/SubState`."""
    source = _LOOK.read_text(encoding="utf-8")
    # Its own text once more as input: it is handed on into the instances.
    argv = ["python3", "-c", source]
    done = lab.run(machine, argv, stdin=source, timeout=_LOOK_S)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(_flat("", json.loads(done.stdout)))


def differences(wanted: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Say in what a house differs from another, and which processes are older than their files."""
    lines = [
        f"{name}: {found.get(name, 'nothing')}, and was {wanted.get(name, 'nothing')}"
        for name in sorted({*wanted, *found})
        if found.get(name) != wanted.get(name)
    ]
    return [*lines, *wrong(found)]


def wrong(found: Mapping[str, str]) -> list[str]:
    """Say what is wrong with a house by itself, whatever others look like."""
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
        # What a timer starts rests in between.
        and not (last == "ActiveState" and "hearth-backup" in name)
    ]


def _flat(above: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _flat(f"{above}{'' if not above else ' / '}{key}", below)
    else:
        yield above, value if isinstance(value, str) else json.dumps(value)
