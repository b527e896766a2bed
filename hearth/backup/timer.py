"""The units that make a backup every night."""

from pathlib import Path

UNIT = "hearth-backup"
# Where the command itself writes, besides the folder of the backups.
_WRITABLE = ("/run", "/var/lib/hearth")


def units(root: str, to: str, at: str | None) -> dict[str, str]:
    """Write the service and the timer, by file name; without a time nothing starts the timer.

    The service may do what root may with Incus, which is everything; what it does not need is
    taken from it all the same: the network, other programs' files, writing anywhere else.
    """
    service = f"""\
# Written by Hearth.
[Unit]
Description=Backup of the house
After=incus.service

[Service]
# X-ExposureCeiling: it does what only root may do with Incus, and reads every file of the house
X-ExposureCeiling=3.1
Type=oneshot
ExecStart={_quoted(f"{root}/scripts/hearth")} backup
Environment=HOME={_quoted(str(Path.home()))}
Environment=PYTHONDONTWRITEBYTECODE=1
Environment=ANSIBLE_LOCAL_TEMP=/tmp
Nice=10
IOSchedulingClass=idle
NoNewPrivileges=yes
CapabilityBoundingSet=CAP_DAC_OVERRIDE
PrivateNetwork=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths={" ".join(_WRITABLE)} {_quoted(f"-{to}")}
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictAddressFamilies=AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
UMask=0077
# Output from an instance has no length limit.
MemoryMax=1G
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


def _quoted(word: str) -> str:
    """Quote one word for systemd, which expands `%` everywhere."""
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'
