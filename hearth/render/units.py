"""Turn the start of a program, which is data, into a hardened systemd unit.

With another runtime, the same data becomes a quadlet or a compose entry. A role therefore never
writes a unit.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

# Enough for a program with one socket and one folder; every exception has a reason.
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
# A program that exits is restarted after growing delays of at most 15 s: a lasting error costs
# little, and the service is back within half a minute after the cause is gone.
STEPS, SLOWEST_S = 5, 15
CREDENTIALS_FOLDER = "/etc/hearth/credentials"
# Of 10, on the scale of `systemd-analyze security`: the exposure of a unit with all rules above
# that reads /proc. A unit that needs more declares its own ceiling.
EXPOSURE_CEILING = 1.4
_CEILING_KEY = "X-ExposureCeiling"
_LIMITS = {"memory": "MemoryMax", "tasks": "TasksMax"}
T = TypeVar("T")


class UnitError(ValueError):
    """The start data is not valid; the text is one line with the change to make."""


@dataclass(frozen=True, slots=True)
class StartData:
    """How one program is started: everything that a role declares about it."""

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
    unlogged: Sequence[str] = ()  # patterns of lines that the journal drops (Debian 13)
    limits: Mapping[str, str | int] = field(default_factory=dict)
    stop_s: int = 10
    again_s: float = 1  # delay before a restart; Debian 12 has no growing delays
    # It exits after its work, such as loading rules; `before` names units that wait.
    once: bool = False
    before: Sequence[str] = ()


def read_fields(kind: type[T], data: Mapping[str, Any], where: str, program: str = "") -> T:
    """Return this dataclass from a role's data; `UnitError` names an unknown or a missing field."""
    # Python rejects them as well, but its messages differ between versions.
    found = fields(kind)  # type: ignore[arg-type]  # typing has no name for a dataclass
    known = {item.name: item.default is item.default_factory is MISSING for item in found}
    if unknown := sorted(data.keys() - known.keys()):
        raise UnitError(
            f"{program}{unknown[0]} is not a valid field of {where}; known are {', '.join(known)}"
        )
    if missing := [name for name, needed in known.items() if needed and name not in data]:
        raise UnitError(f"{program}{', '.join(missing)} is missing in {where}")
    return kind(**data)


def systemd_unit(name: str, data: Mapping[str, Any]) -> str:
    """Write the unit file of one program.

    Args:
        name: The unit's name without `.service`.
        data: The fields of `StartData`.

    Raises:
        UnitError: An unknown field, an exception from a rule that is not there, an empty command.
    """
    run = read_fields(StartData, data, "start data", f"{name}: ")
    if not run.command or not run.command[0].startswith("/"):
        raise UnitError(f"{name}: command must start with the full path of a program")
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
    # A second line would be another setting, and a final backslash would join the next line.
    if "\n" in value or value.endswith("\\"):
        raise UnitError(f"{name}: {key.strip('# ')}: {value!r} must be one line of text")
    return f"{key}: {value}" if key.startswith("#") else f"{key}={value}"


def _unit_section(run: StartData) -> list[tuple[str, str]]:
    return [
        ("Description", run.summary.replace("%", "%%")),
        ("After", " ".join(["network.target", *run.after])),
        *_lists(Wants=run.after, PartOf=run.follows, Before=run.before),
        # Retry forever: a program that a full disk or a late device stopped comes back by itself.
        ("StartLimitIntervalSec", "0"),
    ]


def _lists(**settings: Iterable[str]) -> list[tuple[str, str]]:
    """Return the lines of settings that take a list; an empty one has no line."""
    return [(key, line) for key, values in settings.items() if (line := " ".join(values))]


def _service_section(name: str, run: StartData) -> list[tuple[str, str]]:
    life = [("Type", "exec"), ("Restart", "always")]
    if run.once:
        life = [("Type", "oneshot"), ("RemainAfterExit", "yes"), ("Restart", "on-failure")]
    if unknown := set(run.limits) - set(_LIMITS):
        raise UnitError(f"limits: {sorted(unknown)[0]} is not one of {', '.join(_LIMITS)}")
    return [
        *life,
        ("RestartSec", f"{run.again_s:g}"),
        ("RestartSteps", str(STEPS)),
        ("RestartMaxDelaySec", str(SLOWEST_S)),
        ("ExecStart", " ".join(map(quoted, map(str, run.command)))),
        *_lists(ExecReload=map(quoted, run.reload)),
        ("User", run.user),
        ("TimeoutStopSec", str(run.stop_s)),
        *(
            ("Environment", quoted(f"{key}={value}", expands="%"))
            for key, value in sorted(run.environment.items())
        ),
        *(
            ("LoadCredential", f"{key}:{CREDENTIALS_FOLDER}/{name}/{key}")
            for key in sorted(run.credentials)
        ),
        *_lists(
            RuntimeDirectory=[run.runtime_folder],
            SupplementaryGroups=run.groups,
            ReadWritePaths=[quoted(path, expands="%") for path in run.writable],
        ),
        *(("LogFilterPatterns", f"~{pattern}") for pattern in run.unlogged),
        *((_LIMITS[key], str(value)) for key, value in run.limits.items()),
        *_hardening(name, run),
    ]


def _hardening(name: str, run: StartData) -> list[tuple[str, str]]:
    rules = dict(HARDENING)
    if run.capabilities:
        rules["CapabilityBoundingSet"] = rules["AmbientCapabilities"] = " ".join(run.capabilities)
    if run.devices:
        rules |= {"PrivateDevices": "no", "DevicePolicy": "closed"}
    if run.peers:
        rules |= {"IPAddressDeny": "any", "IPAddressAllow": " ".join(run.peers)}
    lines: list[tuple[str, str]] = []
    for rule, exception in run.exceptions.items():
        if rule not in rules or set(exception) != {"value", "reason"}:
            raise UnitError(f"{name}: exception {rule} must be a rule with value and reason")
        rules[rule] = exception["value"]
        lines.append((f"# {rule}", exception["reason"]))
    if run.ceiling:
        if set(run.ceiling) != {"value", "reason"} or not 0 < float(run.ceiling["value"]) < 10:
            raise UnitError(f"{name}: ceiling must be a value from 0 to 10 and reason")
        # systemd ignores keys that start with `X-`.
        lines.append((f"# {_CEILING_KEY}", str(run.ceiling["reason"])))
        lines.append((_CEILING_KEY, f"{float(run.ceiling['value']):g}"))
    return [*lines, *directives(rules), *(("DeviceAllow", f"{name} rw") for name in run.devices)]


def directives(rules: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the lines of a unit for these rules."""
    # A deny list after an allow list is a directive of its own.
    return [(rule, part) for rule, value in rules.items() for part in re.split(r" (?=~)", value)]


def exposure_ceiling(unit: str) -> float:
    """Return the exposure ceiling in a unit's text, on a scale of 10."""
    found = re.search(rf"^{_CEILING_KEY}=([0-9.]+)$", unit, re.MULTILINE)
    return float(found[1]) if found else EXPOSURE_CEILING


def quoted(word: str, expands: str = "%$") -> str:
    """Quote one argument for systemd, which expands `%` everywhere and `$` in command lines."""
    if "\n" in word:
        raise UnitError(f"{word!r} must be one line of text")
    escaped = re.sub(f"([{expands}])", r"\1\1", word)
    if escaped and not re.search(r"[ \t\"'\\;]", escaped):
        return escaped
    return '"' + re.sub(r'(["\\])', r"\\\1", escaped) + '"'
