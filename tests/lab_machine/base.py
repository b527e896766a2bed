"""The base disk that every lab machine is copied from: a minimal Debian 13, created once."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.lab_machine import disk
from tests.lab_machine.command import call
from tests.lab_machine.model import CACHE
from tests.lab_machine.steps import step

SUITE = "trixie"
PACKAGES = (
    *("systemd", "systemd-sysv", "udev", "dbus", "libpam-systemd", "iproute2", "nftables"),
    *("ca-certificates", "curl", "python3", "sudo", "openssh-server", "procps", "kmod"),
    *("netbase", "git", "iputils-ping", "less"),
)
CERTIFICATES = Path("/usr/local/share/ca-certificates")
BASE_SIZE_BYTES = 4 << 30

# networkd-wait-online never ends without a lease; the two mounts break Podman's user namespaces
# ("cannot unmount /sys/kernel").
MASKED = (
    "systemd-networkd-wait-online.service",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
)
FILES = {
    # The mirror a lab reaches may serve an expired Release file; a user's house never sees this.
    "etc/apt/apt.conf.d/01hearth-lab": 'Acquire::Check-Valid-Until "false";\n'
    'Acquire::Languages "none";\n',
    # A lab is disposable: it need not survive a power cut during a dpkg run.
    "etc/dpkg/dpkg.cfg.d/hearth-lab": "force-unsafe-io\n",
    "etc/systemd/system/ssh-host-keys.service": "[Unit]\nDescription=Make the ssh host keys\n"
    "Before=ssh.service\nConditionPathExists=!/etc/ssh/ssh_host_ed25519_key\n"
    "[Service]\nType=oneshot\nExecStart=/usr/bin/ssh-keygen -A\n"
    "[Install]\nWantedBy=multi-user.target\n",
    "etc/locale.conf": "LANG=C.UTF-8\n",
    # The cache is on another file system, so hard links into it are impossible.
    "root/.config/uv/uv.toml": 'link-mode = "copy"\n',
}


def certificates() -> dict[str, bytes]:
    """The outer machine's own certificate authorities, by file name."""
    return {path.name: path.read_bytes() for path in sorted(CERTIFICATES.glob("*.crt"))}


def digest(extra: dict[str, bytes], more: Sequence[str] = ()) -> str:
    """Name of a base disk: changes with all its inputs except the packages' versions."""
    recipe = {
        "format": 5,
        "suite": SUITE,
        "packages": (*PACKAGES, *sorted(set(more))),
        "masked": MASKED,
        "files": FILES,
        "certificates": {name: hashlib.sha256(pem).hexdigest() for name, pem in extra.items()},
    }
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:12]


def ensure(proxy: str, more: Sequence[str] = ()) -> Path:
    """The base disk, created by mmdebstrap through the package cache if it is missing.

    `more` are packages beside those of every lab machine. The cache keeps one disk without such
    packages and the latest one with them.
    """
    extra = certificates()
    folder = CACHE / "base" / ("furnished" if more else "")
    file = folder / f"debian-13-{digest(extra, more)}.btrfs"
    if file.exists():
        return file
    folder.mkdir(parents=True, exist_ok=True)
    with step(f"Make the base disk ({', '.join(('Debian 13', *more))})"):
        work = CACHE / "base" / "work"
        disk.erase(work)
        disk.make(work / "disk.btrfs", BASE_SIZE_BYTES)
        # Compressed, because every machine starts as a copy of these bytes.
        disk.attach(work / "disk.btrfs", work / "mount", options="compress=zstd:3")
        try:
            _fill(work / "mount" / "root", proxy, extra, more)
            # Blocks that apt wrote and freed would otherwise be copied into every machine.
            call(["btrfs", "filesystem", "sync", str(work / "mount")], timeout_s=120)
            call(["fstrim", str(work / "mount")], timeout_s=120)
        finally:
            disk.detach(work)
        for old in file.parent.glob("debian-13-*.btrfs"):
            old.unlink()
        (work / "disk.btrfs").replace(file)
        disk.erase(work)
    return file


def _fill(root: Path, proxy: str, extra: dict[str, bytes], more: Sequence[str]) -> None:
    disk.make_subvolume(root)
    options = ('Acquire::Check-Valid-Until "false"', f'Acquire::http::Proxy "{proxy}"')
    call(
        [
            # As root it makes all mounts private; in its own namespace that is harmless.
            *(
                "unshare",
                "--mount",
                "mmdebstrap",
                "--variant=minbase",
                f"--include={','.join((*PACKAGES, *more))}",
            ),
            *(f"--aptopt={option}" for option in options),
            *(SUITE, str(root)),
        ],
        timeout_s=900,
    )
    # mmdebstrap leaves its options behind, and the address of the cache differs per lab.
    (root / "etc/apt/apt.conf.d/99mmdebstrap").unlink(missing_ok=True)
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name, pem in extra.items():
        (root / "usr/local/share/ca-certificates" / name).write_bytes(pem)
    # Plain folders: otherwise systemd creates subvolumes, which a snapshot does not include.
    for name in ("var/lib/machines", "var/lib/portables"):
        (root / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    # Empty, not "uninitialized": that would be a first boot, with prompts and presets.
    (root / "etc/machine-id").write_text("")
    _inside(root, "update-ca-certificates")
    _inside(root, "systemctl", "mask", *MASKED)
    _inside(root, "systemctl", "enable", "systemd-networkd.service", "ssh-host-keys.service")


def _inside(root: Path, *argv: str) -> None:
    call(["chroot", str(root), *argv], timeout_s=120)


def forget_all() -> None:
    """Remove every cache of the lab."""
    disk.detach(CACHE)
    shutil.rmtree(CACHE, ignore_errors=True)
