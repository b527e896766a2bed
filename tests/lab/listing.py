"""What a lab machine consists of, as lists to compare: files, packages, users, rules."""

from __future__ import annotations

import re

from tests import lab_machine as lab

# One line per item. Files of /etc are listed with their content, the others by name.
_LOOK = {
    "files": (
        "find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp \\) "
        "-prune -o -path /etc/\\* -type f -printf '%p %m %u:%g ' -exec sha256sum {} \\; "
        "-o -printf '%p %y %m %u:%g %l\\n' | sed 's/  .*//'"
    ),
    "packages": "dpkg-query -W -f '${Package} ${db:Status-Status}\\n'",
    "packages asked for": "apt-mark showmanual",
    "users": "getent passwd; getent group",
    "units": "systemctl list-unit-files --no-legend --plain | awk '{print $1, $2}'",
    "living units": (
        "systemctl list-units --no-legend --plain --type=service,timer,socket,mount | "
        "awk '{print $1, $3}'"
    ),
    "rules": "nft --stateless list ruleset 2>/dev/null || true",
    # Only its own end: the other end of a link has another number after a restart.
    "addresses": "ip -brief -4 address | sed 's/@[^ ]*//' | awk '{print $1, $3}'",
    "routes": "ip -4 route; ip -6 route | sed 's/ expires [^ ]*//'",
    "routing rules": "ip -4 rule | sed 's/^/4 /'; ip -6 rule | sed 's/^/6 /'",
    "kernel": (
        "sysctl net.ipv4.ip_forward net.ipv4.conf.all.src_valid_mark fs.inotify.max_user_instances"
    ),
    "mounts": "findmnt --noheadings --raw --output TARGET",
    "programs": "ps -eo comm= | grep -E 'incus|caddy|dnsmasq|hearth|lxc' || true",
}
Listing = dict[str, set[str]]
# Differences that are no trace of a house, and why. Each names exactly one thing: an exception
# for a whole folder would hide what a house leaves there.
EXCEPTIONS = {
    r"files: . /root/(hearth|\.ssh)": "the project stays, with what brought it",
    r"files: . /root d": "the folder that it lies in",
    r"files: . /(etc/ssl/certs|usr/local/share/ca-certificates|etc/apt/apt\.conf\.d)": "the lab's",
    r"files: . /etc/(passwd|shadow|group|gshadow|subuid|subgid)- ": "copies before a last change",
    r"files: . /etc/(ld\.so\.cache|\.pwd\.lock)": "Debian's index and lock",
    r"files: . /var/cache/(apt|debconf|ldconfig|man)[/ ]": "Debian's caches",
    r"files: . /var/log/(apt|journal)[/ ]": "Debian's journals",
    r"files: . /var/log/(alternatives|dpkg)\.log": "Debian's journals",
    r"files: . /var/log/(btmp|lastlog|wtmp) ": "Debian's journals",
    r"files: . /var/backups/(alternatives|apt|dpkg)\.": "Debian's copies of its books",
    r"files: . /var/tmp/systemd-private-\S*-systemd-": "what Debian's own services have for /tmp",
    r"files: . /var/lib/(apt|dpkg|ucf|wtmpdb)[/ ]": "Debian's books of packages and logins",
    r"files: . /var/lib/systemd/(?!timers/stamp-hearth)": "Debian's books of timers and units",
    r"files: . /usr/\S*__pycache__": "what Python compiled of Debian's own modules",
    r"living units: - systemd-(firstboot|machine-id-commit|sysusers|update-done)\.": "a first boot",
    r"living units: - (ldconfig|systemd-(hwdb|journal-catalog)-update)\.": "a first boot",
    r"living units: - (apt-daily\S*|dpkg-db-backup|systemd-tmpfiles-clean)\.service": "a timer's",
    r"living units: - systemd-(hostnamed|localed|timedated)\.service": "comes when it is asked",
}


def take(name: str) -> Listing:
    """List what is on a lab machine now."""
    found = {}
    for what, script in _LOOK.items():
        done = lab.run(name, ["/bin/bash", "-c", script], timeout=120, check=True)
        found[what] = {line.rstrip() for line in done.stdout.splitlines() if line.strip()}
    return found


def differences(before: Listing, after: Listing) -> list[str]:
    """Return line by line what was added and what is gone."""
    return [
        f"{what}: {sign} {line}"
        for what in before
        for sign, lines in (("+", after[what] - before[what]), ("-", before[what] - after[what]))
        for line in sorted(lines)
    ]


def unexplained(lines: list[str]) -> list[str]:
    """Return the lines that no exception covers."""
    return [line for line in lines if not any(re.match(rule, line) for rule in EXCEPTIONS)]
