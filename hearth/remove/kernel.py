"""Which of the kernel's settings somebody else's network has come to live on since."""

from pathlib import Path

from hearth.remove.before import Before, kernel_value

# Docker, libvirt and tunnels set these when they start, and never look again.
_NEEDED_BY = {
    "net.ipv4.ip_forward": ("bridge", "wireguard"),
    "net.ipv4.conf.all.src_valid_mark": ("wireguard",),
}


def in_use(before: Before | None, root: Path = Path("/")) -> dict[str, str]:
    """Name the settings that Hearth changed and that stay, each with what may need it."""
    found: dict[str, str] = {}
    if before is None or not before.known:
        return found
    for path in sorted((root / "sys/class/net").glob("*/uevent")):
        if f"/sys/class/net/{path.parent.name}" in before.paths:
            continue
        kind = path.read_text().partition("DEVTYPE=")[2].partition("\n")[0]
        for name, value in before.kernel.items():
            if kind in _NEEDED_BY.get(name, ()) and kernel_value(name) != value:
                found.setdefault(name, f"the {kind} {path.parent.name} may need it")
    return found
