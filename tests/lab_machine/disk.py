"""Disks of fixed size: btrfs on a sparse file, the root a subvolume, saved states snapshots."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from tests.lab_machine.command import call

ROOT = "root"
SAVED = "saved"


def make(file: Path, size_bytes: int) -> None:
    """Make a sparse file of this size with an empty btrfs on it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    with file.open("wb") as handle:
        handle.truncate(size_bytes)
    call(["mkfs.btrfs", "--quiet", "--metadata", "single", "--data", "single", str(file)])


def copy(source: Path, target: Path, size_bytes: int) -> None:
    """Copy a disk sparsely, and give it its own identity and size."""
    target.parent.mkdir(parents=True, exist_ok=True)
    call(["cp", "--sparse=always", "--reflink=auto", str(source), str(target)], timeout_s=300)
    # The kernel treats two disks with the same btrfs identity as parts of one.
    call(["btrfstune", "-f", "-m", str(target)])
    with target.open("r+b") as handle:
        handle.truncate(max(size_bytes, source.stat().st_size))


def attach(file: Path, mount: Path, *, options: str = "noatime") -> None:
    """Mount a disk file and let its file system fill it; a mounted disk is left alone."""
    mount.mkdir(parents=True, exist_ok=True)
    if is_attached(Path("/proc/self/mountinfo").read_text(), mount):
        return
    # Every nspawn starts with a hidden copy of all mounts. Without shared mounts (no systemd
    # outside), the copies in other labs would hold this disk after it is unmounted here; only
    # below a shared mount does unmounting propagate to them.
    if mount not in mounts_under(mount):
        call(["mount", "--bind", str(mount), str(mount)])
    call(["mount", "--make-shared", str(mount)])
    # `loop` sets autoclear: the mount frees the loop device, also after a kill. `nobarrier`:
    # a lab outlives kills, not a power cut, and need not wait for the outer disk at each fsync.
    options = f"loop,nobarrier,discard=async,{options}"
    call(["mount", "-t", "btrfs", "-o", options, str(file), str(mount)])
    call(["btrfs", "filesystem", "resize", "max", str(mount)])


def detach(folder: Path) -> None:
    """Unmount everything below a folder and free the loop devices of its files."""
    # A killed machine's last processes hold the mount for a moment. An open shell inside may hold
    # it longer, but must not block the name, so the mount is then detached lazily.
    _until(lambda: all(_unmount(mount) for mount in reversed(mounts_under(folder))))
    for mount in reversed(mounts_under(folder)):
        call(["umount", "--lazy", str(mount)], check=False)
    for device in loops_of(folder):
        call(["losetup", "--detach", device], check=False)
    _until(lambda: not loops_of(folder))


def _unmount(mount: Path) -> bool:
    return call(["umount", str(mount)], check=False).returncode == 0


def _until(good: Callable[[], bool], within_s: float = 5) -> None:
    deadline = time.monotonic() + within_s
    while not good() and time.monotonic() < deadline:
        time.sleep(0.05)


def mounts_under(folder: Path) -> list[Path]:
    """Mount points at or below a folder, outer ones first."""
    return parse_mounts(Path("/proc/self/mountinfo").read_text(), folder)


def is_attached(mountinfo: str, mount: Path) -> bool:
    """Whether a mountinfo text has the top of a btrfs mounted here, not just some folder of one."""
    rows = (line.split() for line in mountinfo.splitlines() if line)
    tops = (row[4] for row in rows if row[3] == "/" and row[row.index("-") + 1] == "btrfs")
    return str(mount) in tops


def parse_mounts(mountinfo: str, folder: Path) -> list[Path]:
    """The mount points of a mountinfo text that lie at or below `folder`, in mount order."""
    points = (line.split()[4] for line in mountinfo.splitlines() if line)
    paths = (Path(point.encode().decode("unicode_escape")) for point in points)
    return [path for path in paths if path == folder or folder in path.parents]


def loops_of(folder: Path) -> list[str]:
    """Loop devices whose file lies (or lay) below a folder."""
    listing = call(["losetup", "--list", "--noheadings", "--raw", "-O", "NAME,BACK-FILE"]).stdout
    rows = (line.split(" ", 1) for line in listing.splitlines())
    return [row[0] for row in rows if len(row) == 2 and row[1].startswith(f"{folder}/")]


def make_subvolume(path: Path) -> None:
    """Make an empty subvolume."""
    call(["btrfs", "subvolume", "create", str(path)])


def snapshot(mount: Path, source: str, target: str) -> None:
    """Create a writable snapshot of a mounted disk's subvolume and all subvolumes inside it."""
    call(["btrfs", "subvolume", "snapshot", str(mount / source), str(mount / target)])
    # A snapshot shows the subvolumes inside as empty folders (Incus and Podman may make some).
    for inner in nested(mount, source):
        place = mount / target / inner
        place.rmdir()
        call(["btrfs", "subvolume", "snapshot", str(mount / source / inner), str(place)])


def remove(mount: Path, name: str) -> None:
    """Delete a subvolume of a mounted disk with every subvolume inside it, if it exists."""
    if not (mount / name).exists():
        return
    for inner in reversed(nested(mount, name)):
        call(["btrfs", "subvolume", "delete", str(mount / name / inner)])
    call(["btrfs", "subvolume", "delete", str(mount / name)])


def nested(mount: Path, name: str) -> list[Path]:
    """Subvolumes inside a subvolume of a mounted disk, relative to it, outer ones first."""
    # List from the top: below it, btrfs does not use one common base for the paths.
    return parse_nested(call(["btrfs", "subvolume", "list", str(mount)]).stdout, name)


def parse_nested(listing: str, inside: str) -> list[Path]:
    """The paths below `inside` in the output of `btrfs subvolume list`, relative to it."""
    paths = [line.split(" path ", 1)[1] for line in listing.splitlines() if " path " in line]
    below = [Path(path).relative_to(inside) for path in paths if path.startswith(f"{inside}/")]
    return sorted(below, key=lambda path: len(path.parts))


def saved(mount: Path) -> list[str]:
    """Tags saved on a mounted disk."""
    folder = mount / SAVED
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def used_bytes(file: Path) -> int:
    """The disk space that a sparse file occupies."""
    return file.stat().st_blocks * 512 if file.exists() else 0


def erase(folder: Path) -> None:
    """Remove a folder after everything mounted in it."""
    detach(folder)
    if not mounts_under(folder):
        shutil.rmtree(folder, ignore_errors=True)
