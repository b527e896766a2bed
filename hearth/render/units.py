"""Turn the start of a program, which is data, into a hardened systemd unit.

The same data becomes a quadlet or a compose entry where the runtime is another one; a role
therefore never writes a unit.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

# What a program on one socket with one folder needs; everything else is an exception with a reason.
HARDENING: Mapping[str, str] = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "AmbientCapabilities": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "ProtectProc": "invisible",
    "ProcSubset": "pid",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "PrivateMounts": "yes",
    "ProtectClock": "yes",
    "ProtectControlGroups": "yes",
    "ProtectHostname": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelTunables": "yes",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    "RestrictNamespaces": "yes",
    "RestrictRealtime": "yes",
    "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes",
    "MemoryDenyWriteExecute": "yes",
    "SystemCallArchitectures": "native",
    "SystemCallFilter": "@system-service ~@privileged",
    "RemoveIPC": "yes",
    "KeyringMode": "private",
    "UMask": "0077",
}
# What ends at once is started again after longer and longer rests, of 15 s at most: an error costs
# little for as long as it lasts, and half a minute after its reason is gone all is well.
STEPS, SLOWEST_S = 5, 15
CREDENTIALS_FOLDER = "/etc/hearth/credentials"
# Of 10, on the scale of `systemd-analyze security`: what is left when every rule above is kept and
# the program reads the machine from /proc. A unit that must be more open names its own ceiling.
EXPOSURE_CEILING = 1.4
_CEILING_KEY = "X-ExposureCeiling"


class UnitError(ValueError):
    """The start data cannot become a unit; the text says what to change."""


@dataclass(frozen=True, slots=True)
class Run:
    """How one program is started: what a role says, and all that it says about it."""

    command: Sequence[str]
    summary: str
    user: str
    environment: Mapping[str, str] = field(default_factory=dict)
    credentials: Sequence[str] = ()
    writable: Sequence[str] = ()
    devices: Sequence[str] = ()
    groups: Sequence[str] = ()
    capabilities: Sequence[str] = ()
    peers: Sequence[str] = ()  # addresses it exchanges packets with; none: the firewall decides
    exceptions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # rule: value, reason
    ceiling: Mapping[str, float | str] = field(default_factory=dict)  # value, reason
    after: Sequence[str] = ()
    follows: Sequence[str] = ()
    reload: Sequence[str] = ()
    runtime_folder: str = ""
    limits: Mapping[str, str | int] = field(default_factory=dict)
    stop_s: int = 10
    again_s: float = 1  # rest before it is started again; Debian 12 knows no growing one
    once: bool = False  # does its work and ends, as loading a ruleset; `before` names who waits
    before: Sequence[str] = ()


def _read(name: str, data: Mapping[str, Any]) -> Run:
    # Python would refuse them, too, but its words differ from version to version.
    known = {item.name: item.default is item.default_factory is MISSING for item in fields(Run)}
    if unknown := sorted(data.keys() - known.keys()):
        raise UnitError(f"{name}: {unknown[0]} is no start datum; known are {', '.join(known)}")
    if lacking := [word for word, needed in known.items() if needed and word not in data]:
        raise UnitError(f"{name}: {', '.join(lacking)} is missing in the start data")
    return Run(**data)


def systemd_unit(name: str, data: Mapping[str, Any]) -> str:
    """Write the unit file of one program.

    Args:
        name: The unit's name without `.service`.
        data: The fields of `Run`.

    Raises:
        UnitError: An unknown field, an exception from a rule that is not there, an empty command.
    """
    run = _read(name, data)
    if not run.command or not run.command[0].startswith("/"):
        raise UnitError(f"{name}: command must begin with the full path of a program")
    sections = {
        "Unit": _unit_section(run),
        "Service": _service_section(name, run),
        "Install": [("WantedBy", "multi-user.target")],
    }
    parts = ["# Written by Hearth from the start data of its role; edits are found and undone."]
    for title, lines in sections.items():
        parts += ["", f"[{title}]", *(_line(name, key, value) for key, value in lines)]
    return "\n".join(parts) + "\n"


def _line(name: str, key: str, value: str) -> str:
    # Another line would be another setting, and a backslash at the end would swallow the next one.
    if "\n" in value or value.endswith("\\"):
        raise UnitError(f"{name}: {key.strip('# ')}: {value!r} must be one line of text")
    return f"{key}: {value}" if key.startswith("#") else f"{key}={value}"


def _unit_section(run: Run) -> list[tuple[str, str]]:
    after = " ".join(["network.target", *run.after])
    return [
        ("Description", run.summary.replace("%", "%%")),
        ("After", after),
        *([("Wants", " ".join(run.after))] if run.after else []),
        *([("PartOf", " ".join(run.follows))] if run.follows else []),
        *([("Before", " ".join(run.before))] if run.before else []),
        # Never given up: what a full disk or a late device ended is back when that is over.
        ("StartLimitIntervalSec", "0"),
    ]


def _service_section(name: str, run: Run) -> list[tuple[str, str]]:
    life = [("Type", "exec"), ("Restart", "always")]
    if run.once:
        life = [("Type", "oneshot"), ("RemainAfterExit", "yes"), ("Restart", "on-failure")]
    life += [("RestartSec", f"{run.again_s:g}"), ("RestartSteps", str(STEPS))]
    life.append(("RestartMaxDelaySec", str(SLOWEST_S)))
    lines = [
        *life,
        ("ExecStart", " ".join(map(quoted, map(str, run.command)))),
        *([("ExecReload", " ".join(map(quoted, run.reload)))] if run.reload else []),
        ("User", run.user),
        ("TimeoutStopSec", str(run.stop_s)),
    ]
    lines += [
        ("Environment", quoted(f"{key}={value}", expands="%"))
        for key, value in sorted(run.environment.items())
    ]
    lines += [
        ("LoadCredential", f"{key}:{CREDENTIALS_FOLDER}/{name}/{key}")
        for key in sorted(run.credentials)
    ]
    if run.runtime_folder:
        lines.append(("RuntimeDirectory", run.runtime_folder))
    if run.groups:
        lines.append(("SupplementaryGroups", " ".join(run.groups)))
    if run.writable:
        paths = (quoted(path, expands="%") for path in run.writable)
        lines.append(("ReadWritePaths", " ".join(paths)))
    return lines + _limits(run) + _hardening(name, run)


def _limits(run: Run) -> list[tuple[str, str]]:
    names = {"memory": "MemoryMax", "tasks": "TasksMax"}
    unknown = set(run.limits) - set(names)
    if unknown:
        raise UnitError(f"limits: {sorted(unknown)[0]} is none of {', '.join(names)}")
    return [(names[key], str(value)) for key, value in run.limits.items()]


def _hardening(name: str, run: Run) -> list[tuple[str, str]]:
    rules = dict(HARDENING)
    if run.capabilities:
        rules["CapabilityBoundingSet"] = rules["AmbientCapabilities"] = " ".join(run.capabilities)
    if run.devices:
        rules["PrivateDevices"] = "no"
        rules["DevicePolicy"] = "closed"
    if run.peers:
        rules |= {"IPAddressDeny": "any", "IPAddressAllow": " ".join(run.peers)}
    reasons: list[tuple[str, str]] = []
    for rule, exception in run.exceptions.items():
        if rule not in rules or set(exception) != {"value", "reason"}:
            raise UnitError(f"{name}: exception {rule} must be a rule with value and reason")
        rules[rule] = exception["value"]
        reasons.append((f"# {rule}", exception["reason"]))
    lines = reasons + _ceiling(name, run) + directives(rules)
    return lines + [("DeviceAllow", f"{device} rw") for device in run.devices]


def directives(rules: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the lines of a unit that say these rules."""
    lines = []
    for rule, value in rules.items():
        # A deny list after an allow list is a directive of its own.
        values = value.split(" ~") if rule == "SystemCallFilter" else [value]
        lines += [(rule, values[0]), *((rule, f"~{item}") for item in values[1:])]
    return lines


def _ceiling(name: str, run: Run) -> list[tuple[str, str]]:
    """Write how open the unit may be; systemd itself leaves out what begins with `X-`."""
    if not run.ceiling:
        return []
    if set(run.ceiling) != {"value", "reason"} or not 0 < float(run.ceiling["value"]) < 10:
        raise UnitError(f"{name}: ceiling must be a value from 0 to 10 and reason")
    reason, value = str(run.ceiling["reason"]), f"{float(run.ceiling['value']):g}"
    return [(f"# {_CEILING_KEY}", reason), (_CEILING_KEY, value)]


def exposure_ceiling(unit: str) -> float:
    """Return how open a unit may be, from its text; the scale ends at 10."""
    said = re.search(rf"^{_CEILING_KEY}=([0-9.]+)$", unit, re.MULTILINE)
    return float(said[1]) if said else EXPOSURE_CEILING


def quoted(word: str, expands: str = "%$") -> str:
    """Quote one word for systemd, which expands `%` everywhere and `$` in command lines."""
    if "\n" in word:
        raise UnitError(f"{word!r} must be one line of text")
    escaped = word
    for sign in expands:
        escaped = escaped.replace(sign, sign * 2)
    if escaped and not any(letter in escaped for letter in " \t\"'\\;"):
        return escaped
    inner = escaped.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inner}"'
