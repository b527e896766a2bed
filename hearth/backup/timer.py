"""The units that make a backup every night."""

from pathlib import Path

from hearth.render.units import HARDENING, quoted

UNIT = "hearth-backup"
# It does what only root may do with Incus; a service of Hearth's own has all of these rules.
_NOT_HARDENED = {"AmbientCapabilities", "ProtectProc", "ProcSubset", "PrivateMounts", "RemoveIPC"}
_NOT_HARDENED |= {"MemoryDenyWriteExecute", "SystemCallFilter", "KeyringMode"}


def units(root: str, to: str, at: str | None) -> dict[str, str]:
    """Write the service and the timer, by file name; without a time nothing starts the timer.

    The service may do what root may with Incus, which is everything; what it does not need is
    taken from it all the same: the network, other programs' files, writing anywhere else.
    """
    rules = {name: value for name, value in HARDENING.items() if name not in _NOT_HARDENED}
    rules |= {
        "CapabilityBoundingSet": "CAP_DAC_OVERRIDE",
        "PrivateNetwork": "yes",
        "ProtectHome": "read-only",
        # Where the command itself writes, besides the folder of the backups.
        "ReadWritePaths": f"/run /var/lib/hearth {quoted(f'-{to}', '%')}",
        "RestrictAddressFamilies": "AF_UNIX",
        # Output from an instance has no length limit.
        "MemoryMax": "1G",
    }
    hardening = "\n".join(f"{name}={value}" for name, value in rules.items())
    service = f"""\
# Written by Hearth.
[Unit]
Description=Backup of the house
After=incus.service

[Service]
# X-ExposureCeiling: it does what only root may do with Incus, and reads every file of the house
X-ExposureCeiling=3.1
Type=oneshot
ExecStart={quoted(f"{root}/scripts/hearth", "%")} backup
Environment={quoted(f"HOME={Path.home()}", "%")}
Environment=PYTHONDONTWRITEBYTECODE=1
Environment=ANSIBLE_LOCAL_TEMP=/tmp
Nice=10
IOSchedulingClass=idle
{hardening}
"""
    timer = f"""\
# Written by Hearth.
[Unit]
Description=A backup of the house every night

[Timer]
OnCalendar=*-*-* {at or "03:30"}:00
# A backup that was missed while the machine slept runs later.
Persistent=true

[Install]
WantedBy=timers.target
"""
    return {f"{UNIT}.service": service, f"{UNIT}.timer": timer}
