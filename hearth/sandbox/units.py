"""The units that delete sandboxes in time: one waits for a sandbox, the other one guards them."""

from pathlib import Path

from hearth.render.units import HARDENING, quoted
from hearth.sandbox.lifecycle import ROOTS

UNIT = "hearth-sandboxes"
# It does what only root may do with Incus; a service of Hearth's own has all of these rules.
_NOT_HARDENED = {"AmbientCapabilities", "ProtectProc", "ProcSubset", "PrivateMounts", "RemoveIPC"}
_NOT_HARDENED |= {"MemoryDenyWriteExecute", "SystemCallFilter", "KeyringMode"}


def unit_files(root: str) -> dict[str, str]:
    """Write the service and the path unit, by file name; `root` is the project's folder."""
    rules = {name: value for name, value in HARDENING.items() if name not in _NOT_HARDENED}
    rules |= {
        # It measures files of any owner.
        "CapabilityBoundingSet": "CAP_DAC_READ_SEARCH",
        "PrivateNetwork": "yes",
        "ProtectHome": "read-only",
        "RestrictAddressFamilies": "AF_UNIX",
        "MemoryMax": "256M",
        "TasksMax": "64",
    }
    hardening = "\n".join(f"{name}={value}" for name, value in rules.items())
    service = f"""\
# Written by Hearth.
[Unit]
Description=Guard of the sandboxes
After=incus.service
StartLimitIntervalSec=0

[Service]
# X-ExposureCeiling: it does what only root may do with Incus
X-ExposureCeiling=3.1
Type=exec
Restart=on-failure
RestartSec=5
ExecStart={quoted(f"{root}/scripts/hearth", "%")} sandbox guard
Environment={quoted(f"HOME={Path.home()}", "%")}
Environment=PYTHONDONTWRITEBYTECODE=1
{hardening}
"""
    path = f"""\
# Written by Hearth.
[Unit]
Description=A sandbox, which is deleted in time

[Path]
PathExistsGlob={ROOTS}/sb-*

[Install]
WantedBy=multi-user.target
"""
    return {f"{UNIT}.service": service, f"{UNIT}.path": path}
