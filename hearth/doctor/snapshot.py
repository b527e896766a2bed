"""The state of the house as one document, for the page and for Prometheus."""

import contextlib
import grp
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import hearth
from hearth.catalogue.house import House, Part, Service
from hearth.clients.canary import Work
from hearth.doctor.finding import Finding
from hearth.doctor.kinds import BY_PROMETHEUS
from hearth.status import Row

VERSION = 1
# Text from instances is bounded, and so is the number of series.
_LABEL, _SERIES = 200, 500


@dataclass(slots=True)
class Memory:
    """What the watcher remembers: it survives a restart, and a full disk costs only that.

    `changed` and `since` are Unix times: of the last change of a row, and of the first look that
    found something. `ignored` has the evidence of findings that nobody wants to see.
    """

    up: dict[str, bool] = field(default_factory=dict)
    changed: dict[str, float] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)

    def note_rows(self, rows: Iterable[Row], now: float) -> None:
        """Note when rows have changed."""
        for row in rows:
            if self.up.get(row.name) != row.up:
                self.up[row.name], self.changed[row.name] = row.up, now

    def forget_others(self, rows: Iterable[Row]) -> None:
        """Forget rows that are no more, as those of a removed service."""
        there = {row.name for row in rows}
        self.up = {name: up for name, up in self.up.items() if name in there}
        self.changed = {name: at for name, at in self.changed.items() if name in there}

    def note_findings(self, findings: Sequence[Finding], now: float) -> None:
        """Note since when findings are there, and forget those that are gone."""
        there = {one.key: one for one in findings}
        self.since = {key: self.since.get(key, now) for key in there}
        self.ignored = {
            key: was
            for key, was in self.ignored.items()
            if key in there and was == identity(there[key])
        }


def identity(finding: Finding) -> str:
    """Return what has to change before an ignored finding is shown again: all but the numbers."""
    words = "".join("0" if letter.isdigit() else letter for letter in finding.evidence)
    while "00" in words or "0.0" in words:
        words = words.replace("0.0", "0").replace("00", "0")
    return words


def read_memory(path: Path) -> Memory:
    """Return what was remembered; nothing where that cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        kinds = {"up": bool, "changed": float, "since": float, "ignored": str}
        read = {name: {k: kind(v) for k, v in found[name].items()} for name, kind in kinds.items()}
        return Memory(**read)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Memory()


def rows_as_json(
    rows: Iterable[Row],
    memory: Memory,
    versions: Mapping[str, str],
    devices: Mapping[str, str],
    worked: Mapping[str, Work],
) -> list[dict[str, Any]]:
    """Return the rows with what the watcher knows about them.

    One without a version of its own has the project's.
    """
    return [
        {
            **asdict(row),
            "title": row.name.replace("_", " "),
            "changed": memory.changed.get(row.name, 0),
            "version": versions.get(row.name, hearth.__version__),
            "accelerator": devices.get(row.name, ""),
            "worked": asdict(worked[row.name]) if row.name in worked else None,
        }
        for row in rows
    ]


def sites_as_json(house: House, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the sites of the house; one is up if the service behind it is, None if unknown."""
    up = {row.name: row.up for row in rows}
    owners: list[Service | Part] = [*house.services.values(), *house.parts.values()]
    summaries = {one.name: one.summary for one in owners}
    return [
        {
            "fqdn": site.fqdn,
            "name": site.name,
            "service": site.service,
            "auth": site.auth,
            "summary": summaries[site.service],
            "up": up.get(site.service),
        }
        for site in house.sites
    ]


def findings_as_json(findings: Iterable[Finding], memory: Memory) -> list[dict[str, Any]]:
    """Return the findings, with since when they are there and whether they are ignored."""
    return [
        one.as_json()
        | {"since": memory.since.get(one.key, 0), "ignored": one.key in memory.ignored}
        for one in findings
    ]


def stamped(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with the time of now, on the clock and since the start of the machine."""
    boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    return {"version": VERSION, "made": time.time(), "made_boot_s": boot, **document}


def write(path: Path, text: str, group: str = "") -> None:
    """Replace a file in memory, for everyone on the machine to read or for one group only."""
    fresh = path.with_name(f".{path.name}.new")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
        if group:
            share(handle, group)
        else:
            os.fchmod(handle, 0o644)
    fresh.replace(path)


def share(path: Path | int, group: str) -> None:
    """Let a group read and write a file; until there is such a group, only root may."""
    with contextlib.suppress(KeyError):
        os.chown(path, -1, grp.getgrnam(group).gr_gid)
        os.chmod(path, 0o660)


def metrics(document: Mapping[str, Any]) -> str:
    """Return the document as Prometheus reads it, bounded in the number and length of labels."""
    run, receipt, backup = document["run"], document["receipt"], document["backup"]
    found: dict[str, list[tuple[dict[str, str], float]]] = {
        "hearth_watch_timestamp_seconds": [({}, document["made"])],
        "hearth_run_active": [({}, float(run is not None))],
        # One that answers and fails to work has an alert of its own.
        "hearth_up": [
            ({"name": row["name"], "kind": row["kind"]}, float(row["up"] or _answers(row)))
            for row in document["rows"]
        ],
        "hearth_memory_bytes": [
            ({"name": row["name"]}, float(row["memory_bytes"]))
            for row in document["rows"]
            if row["memory_bytes"]
        ],
        "hearth_cpu_seconds_total": [
            ({"name": row["name"]}, row["cpu_s"]) for row in document["rows"] if row["cpu_s"]
        ],
        "hearth_finding": [
            ({key: one[key] for key in ("name", "about", "severity")}, 1.0)
            for one in document["findings"]
            # Its own alerts would hold themselves up for ever.
            if not one["ignored"] and one["name"] not in BY_PROMETHEUS
        ],
        "hearth_backup_timestamp_seconds": _stamp(backup),
        "hearth_receipt_timestamp_seconds": _stamp(receipt),
        "hearth_certificate_expiry_timestamp_seconds": [
            ({"name": name}, end) for name, end in document["machine"]["certificates"].items()
        ],
        "hearth_loaded_model_bytes": [
            ({"model": one["name"], "where": where}, float(count))
            for one in document["loaded"]
            for where, count in (
                ("card", one["vram_bytes"]),
                ("processor", one["size_bytes"] - one["vram_bytes"]),
            )
        ],
    }
    found["hearth_requests_total"] = [
        ({"name": name, "outcome": outcome}, float(count))
        for name, counts in document["requests"].items()
        for outcome, count in counts.items()
    ]
    works = [one for one in document["canary"] if one["ok"] is not None]
    found["hearth_canary_ok"] = [({"what": one["what"]}, float(one["ok"])) for one in works]
    found["hearth_canary_seconds"] = [
        ({"what": one["what"]}, one["seconds"]) for one in works if one["seconds"] is not None
    ]
    lines: list[str] = []
    left = _SERIES
    for name, series in found.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} {kind}"] if series else []
        # A label may not be there twice, after it was cut.
        once = {_labels(labels): value for labels, value in series}
        lines += [f"{name}{labels} {value!r}" for labels, value in [*once.items()][: max(0, left)]]
        left -= len(once)
    return "\n".join(lines) + "\n"


def _answers(row: Mapping[str, Any]) -> bool:
    return bool(row["state"] == "failing")


_HELP = {
    "hearth_watch_timestamp_seconds": "When the watcher looked last.",
    "hearth_run_active": "Whether a run changes the house now.",
    "hearth_up": "Whether the program of a service or part works, as far as it answers.",
    "hearth_memory_bytes": "What the program of a service or part has in memory, files included.",
    "hearth_cpu_seconds_total": "Processor time of a service or part since its start.",
    "hearth_finding": "A finding of hearth doctor that nobody ignores.",
    "hearth_backup_timestamp_seconds": "When the last backup was made.",
    "hearth_receipt_timestamp_seconds": "When the last receipt was made.",
    "hearth_certificate_expiry_timestamp_seconds": "When a certificate of the house expires.",
    "hearth_loaded_model_bytes": "What a loaded model takes, by place.",
    "hearth_requests_total": "Requests of a part by outcome.",
    "hearth_canary_ok": "Whether a piece of real work was done at the last try.",
    "hearth_canary_seconds": "How long a piece of real work took at the last try.",
}


def _stamp(record: Mapping[str, Any] | None) -> list[tuple[dict[str, str], float]]:
    return [({}, float(record["made"]))] if record and record.get("made") else []


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{_quoted(value)}"' for key, value in labels.items()) + "}"


def _quoted(value: str) -> str:
    return value[:_LABEL].replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
