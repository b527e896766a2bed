"""What a lab machine is made of, as lists that can be compared: files, packages, users, rules."""

from __future__ import annotations

from hearth import lab

# One line per thing. Files of /etc with their content; of the others that they are there.
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
    # Only its own: the other end of a wire has another number after a restart.
    "addresses": "ip -brief -4 address | sed 's/@[^ ]*//' | awk '{print $1, $3}'",
    "routes": "ip -4 route",
    "kernel": "sysctl net.ipv4.ip_forward fs.inotify.max_user_instances",
    "mounts": "findmnt --noheadings --raw --output TARGET",
    "programs": "ps -eo comm= | grep -E 'incus|caddy|dnsmasq|hearth|lxc' || true",
}
Listing = dict[str, set[str]]


def take(name: str) -> Listing:
    """List what is on a lab machine now."""
    found = {}
    for what, script in _LOOK.items():
        done = lab.run(name, ["/bin/bash", "-c", script], timeout=120, check=True)
        found[what] = {line.rstrip() for line in done.stdout.splitlines() if line.strip()}
    return found


def differences(before: Listing, after: Listing) -> list[str]:
    """Say line by line what came and what went."""
    return [
        f"{what}: {sign} {line}"
        for what in before
        for sign, lines in (("+", after[what] - before[what]), ("-", before[what] - after[what]))
        for line in sorted(lines)
    ]
