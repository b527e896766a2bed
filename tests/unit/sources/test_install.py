"""A program is installed whole or not at all, and an archive writes nowhere else."""

import hashlib
import io
import os
import signal
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hearth.sources import Source, SourceError, Store, programs
from hearth.sources.installers import install_release
from hearth.sources.programs import Installed, install

ROOT = Path(__file__).parents[3]
Entry = tuple[tarfile.TarInfo, bytes]


def entry(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, **more: object) -> Entry:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode = kind, len(content), 0o644
    for field, value in more.items():
        setattr(info, field, value)
    return info, content


def install_archive(
    archive: Path, programs: Path, name: str, digest: str, *, write: bool = True
) -> Installed:
    """Install an archive whose digest is known; a local file is verified in its place."""
    source = Source(name, "1", str(archive), digest)
    store = Store(programs / "no-inventory", {}, programs=programs)
    return install_release(store, source, name, write=write)


def is_installed(programs: Path, name: str, digest: str) -> bool:
    return install(programs, name, digest, lambda *_: None, write=False).did == "nothing"


def tar(path: Path, *entries: Entry) -> str:
    """Write a tar, compressed as its name says; return its sha256."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as written:
        for info, content in entries:
            written.addfile(info, io.BytesIO(content))
    data = plain.getvalue()
    if path.name.endswith(".zst"):
        data = subprocess.run(
            ["zstd", "-q", "-c"], input=data, check=True, capture_output=True, timeout=20
        ).stdout
    elif path.name.endswith(".gz"):
        data = subprocess.run(
            ["gzip", "-c"], input=data, check=True, capture_output=True, timeout=20
        ).stdout
    path.write_bytes(data)
    return digest_of(path)


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def program(path: Path, version: str) -> str:
    return tar(
        path,
        entry("bin", kind=tarfile.DIRTYPE, mode=0o700),
        entry("bin/tool", f"#!/bin/sh\necho {version}\n".encode(), mode=0o750, uid=1234, gid=1234),
        entry("lib/data.txt", version.encode() * 1000, mode=0o600),
        entry("lib/link", kind=tarfile.SYMTYPE, linkname="data.txt"),
    )


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.zst"])
def test_installs_and_does_nothing_the_second_time(tmp_path: Path, kind: str) -> None:
    archive = tmp_path / f"tool.{kind}"
    digest = program(archive, "one")
    first = install_archive(archive, tmp_path / "programs", "tool", digest)
    assert (first.did, first.changed) == ("install", True)
    home = tmp_path / "programs" / "tool"
    assert os.readlink(home / "current") == digest
    tool = home / "current" / "bin" / "tool"
    assert subprocess.run([tool], check=True, capture_output=True, timeout=5).stdout == b"one\n"
    assert tool.stat().st_uid == os.getuid()
    assert stat.S_IMODE(tool.stat().st_mode) == 0o755
    assert stat.S_IMODE(tool.parent.stat().st_mode) == 0o755
    assert stat.S_IMODE((home / "current/lib/data.txt").stat().st_mode) == 0o644
    assert (home / "current/lib/link").read_text().startswith("oneone")
    before = snapshot(home)
    archive.unlink()  # an installed program needs no archive
    second = install_archive(archive, tmp_path / "programs", "tool", digest)
    assert (second.did, second.changed) == ("nothing", False)
    assert snapshot(home) == before


def test_images_get_the_files_of_the_house_without_a_second_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "tool.tar"
    digest = program(archive, "one")
    monkeypatch.setattr(programs, "PROGRAMS", tmp_path / "house")
    install_archive(archive, tmp_path / "house", "tool", digest)
    ours = tmp_path / "house/tool/current"
    before = snapshot(tmp_path / "house")
    archive.unlink()
    assert install_archive(archive, tmp_path / "images", "tool", digest).did == "install"
    theirs = tmp_path / "images/tool/current"
    assert theirs.joinpath("bin/tool").samefile(ours / "bin/tool")
    assert os.readlink(theirs / "lib/link") == "data.txt"
    assert is_installed(tmp_path / "images", "tool", digest)
    assert is_installed(tmp_path / "house", "tool", digest)
    assert snapshot(tmp_path / "house") == before


def test_a_damaged_program_of_the_house_gets_into_no_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "tool.tar"
    digest = program(archive, "one")
    monkeypatch.setattr(programs, "PROGRAMS", tmp_path / "house")
    install_archive(archive, tmp_path / "house", "tool", digest)
    (tmp_path / "house/tool/current/lib/data.txt").write_text("other")
    install_archive(archive, tmp_path / "images", "tool", digest)
    assert (tmp_path / "images/tool/current/lib/data.txt").read_text().startswith("oneone")


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_ino, path.lstat().st_mtime_ns)
        for path in folder.rglob("*")
    }


def test_the_previous_version_is_kept_and_older_ones_are_removed(tmp_path: Path) -> None:
    digests = []
    for version in ("one", "two", "three"):
        archive = tmp_path / f"{version}.tar"
        digests.append(program(archive, version))
        install_archive(archive, tmp_path / "programs", "tool", digests[-1])
    home = tmp_path / "programs" / "tool"
    assert sorted(p.name for p in home.iterdir()) == sorted(
        [".lock", "current", "previous", *digests[1:]]
    )
    back = install_archive(tmp_path / "two.tar", tmp_path / "programs", "tool", digests[1])
    assert (back.did, os.readlink(home / "previous")) == ("switch", digests[2])
    assert (home / "current/lib/data.txt").read_text().startswith("two")
    again = install_archive(tmp_path / "three.tar", tmp_path / "programs", "tool", digests[2])
    assert again.did == "switch"


def edit(path: Path) -> None:
    path.write_text("changed by hand")


def edit_to_the_same_size(path: Path) -> None:
    path.write_text("two" * 1000)


def touch_beside(path: Path) -> None:
    path.with_name("more").touch()


def make_executable(path: Path) -> None:
    path.chmod(0o755)


def empty_manifest(path: Path) -> None:
    (path.parent.parent / ".hearth-manifest.json").write_text("")


@pytest.mark.parametrize(
    "damage",
    [Path.unlink, edit, edit_to_the_same_size, touch_beside, make_executable, empty_manifest],
)
def test_a_damaged_program_is_found_and_repaired(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    archive = tmp_path / "one.tar"
    digest = program(archive, "one")
    install_archive(archive, tmp_path / "p", "tool", digest)
    damage(tmp_path / "p/tool/current/lib/data.txt")
    assert not is_installed(tmp_path / "p", "tool", digest)
    seen = install_archive(archive, tmp_path / "p", "tool", digest, write=False)
    assert seen.did == "repair"
    assert not is_installed(tmp_path / "p", "tool", digest)
    assert install_archive(archive, tmp_path / "p", "tool", digest).did == "repair"
    assert is_installed(tmp_path / "p", "tool", digest)
    assert (tmp_path / "p/tool/current/lib/data.txt").read_text().startswith("oneone")
    assert not list((tmp_path / "p/tool").glob(".build-*"))


def test_byte_code_of_a_run_is_not_damage(tmp_path: Path) -> None:
    digest = program(tmp_path / "one.tar", "one")
    install_archive(tmp_path / "one.tar", tmp_path / "p", "tool", digest)
    (tmp_path / "p/tool/current/lib/__pycache__").mkdir()
    (tmp_path / "p/tool/current/lib/__pycache__/x.pyc").touch()
    assert is_installed(tmp_path / "p", "tool", digest)


def test_a_moved_link_is_switched_back(tmp_path: Path) -> None:
    digest = program(tmp_path / "one.tar", "one")
    install_archive(tmp_path / "one.tar", tmp_path / "p", "tool", digest)
    (tmp_path / "p/tool/current").unlink()
    assert install_archive(tmp_path / "one.tar", tmp_path / "p", "tool", digest).did == "switch"


EVIL: dict[str, list[Entry]] = {
    "parent": [entry("../evil", b"x")],
    "parent inside": [entry("a/../../evil", b"x")],
    "absolute": [entry("/evil", b"x")],
    "absolute folder": [entry("/tmp/hearth-evil", kind=tarfile.DIRTYPE)],
    "absolute link": [entry("a", kind=tarfile.SYMTYPE, linkname="/etc/passwd")],
    "link out": [entry("a", kind=tarfile.SYMTYPE, linkname="../..")],
    "through a link": [
        entry("a", kind=tarfile.SYMTYPE, linkname=".."),
        entry("a/evil", b"x"),
    ],
    # Counted by its parts alone, `here/..` stays inside; followed, it leads out.
    "link over a link": [
        entry("here", kind=tarfile.SYMTYPE, linkname="."),
        entry("out", kind=tarfile.SYMTYPE, linkname="here/.."),
    ],
    "link through a link inside": [
        entry("d", kind=tarfile.DIRTYPE),
        entry("a", kind=tarfile.SYMTYPE, linkname="d"),
        entry("a/evil", b"x"),
    ],
    "link that is a hard link": [
        entry("a", kind=tarfile.SYMTYPE, linkname="good"),
        entry("b", kind=tarfile.LNKTYPE, linkname="a"),
    ],
    "folder that becomes a link": [
        entry("a", kind=tarfile.DIRTYPE),
        entry("a", kind=tarfile.SYMTYPE, linkname="good"),
    ],
    "hard link out": [entry("a", kind=tarfile.LNKTYPE, linkname="../../secret")],
    "absolute hard link": [entry("a", kind=tarfile.LNKTYPE, linkname="/etc/passwd")],
    "hard link to nothing": [entry("a", kind=tarfile.LNKTYPE, linkname="nothing")],
    "device": [entry("null", kind=tarfile.CHRTYPE, devmajor=1, devminor=3)],
    "block device": [entry("disk", kind=tarfile.BLKTYPE, devmajor=7, devminor=0)],
    "unknown": [entry("what", kind=b"Z")],
    "fifo": [entry("fifo", kind=tarfile.FIFOTYPE)],
}


@pytest.mark.parametrize("kind", ["tar", "tar.zst"])
@pytest.mark.parametrize("case", EVIL)
def test_an_archive_cannot_write_elsewhere(tmp_path: Path, case: str, kind: str) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "secret").write_text("mine")
    archive = tmp_path / f"evil.{kind}"
    digest = tar(archive, entry("good", b"x"), *EVIL[case])
    with pytest.raises(SourceError, match="is refused or damaged") as caught:
        install_archive(archive, tmp_path / "p", "tool", digest)
    assert "\n" not in str(caught.value)
    left = sorted(str(p.relative_to(tmp_path / "p")) for p in (tmp_path / "p").rglob("*"))
    assert left == ["secret", "tool", "tool/.lock"]


def test_setuid_does_not_survive(tmp_path: Path) -> None:
    digest = tar(tmp_path / "a.tar", entry("su", b"x", mode=0o6777))
    install_archive(tmp_path / "a.tar", tmp_path, "tool", digest)
    assert stat.S_IMODE((tmp_path / "tool/current/su").stat().st_mode) == 0o755


def test_links_inside_and_repeated_names_are_unpacked(tmp_path: Path) -> None:
    digest = tar(
        tmp_path / "a.tar",
        entry("./", kind=tarfile.DIRTYPE),
        entry("./lib/tool-1.2", b"first", mode=0o755),
        entry("lib/tool-1.2", b"second", mode=0o755),
        entry("bin/tool", kind=tarfile.SYMTYPE, linkname="../lib/tool"),
        entry("lib/tool", kind=tarfile.SYMTYPE, linkname="./tool-1.2"),
        entry("lib/copy", kind=tarfile.LNKTYPE, linkname="./lib/tool-1.2"),
        entry("lib/copy", kind=tarfile.LNKTYPE, linkname="lib/copy"),
        entry("lib", kind=tarfile.DIRTYPE),
    )
    install_archive(tmp_path / "a.tar", tmp_path, "tool", digest)
    current = tmp_path / "tool/current"
    assert (current / "bin/tool").read_text() == "second"
    assert (current / "lib/copy").samefile(current / "lib/tool-1.2")


def zipped(path: Path, name: str, mode: int = 0o100755) -> str:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    with zipfile.ZipFile(path, "w") as written:
        written.writestr(info, b"content")
    return digest_of(path)


def test_a_zip_keeps_executable_bits(tmp_path: Path) -> None:
    digest = zipped(tmp_path / "a.zip", "bin/tool", 0o104755)
    install_archive(tmp_path / "a.zip", tmp_path, "tool", digest)
    assert stat.S_IMODE((tmp_path / "tool/current/bin/tool").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("name", "mode"),
    [("../evil", 0o100644), ("/evil", 0o100644), ("a\\..\\b", 0o100644), ("link", 0o120777)],
)
def test_a_zip_cannot_write_elsewhere(tmp_path: Path, name: str, mode: int) -> None:
    digest = zipped(tmp_path / "a.zip", name, mode)
    with pytest.raises(SourceError, match="refused or damaged"):
        install_archive(tmp_path / "a.zip", tmp_path / "p", "tool", digest)


@pytest.mark.parametrize("kind", ["tar.gz", "tar.zst"])
def test_a_cut_archive_leaves_the_old_program(tmp_path: Path, kind: str) -> None:
    good = tmp_path / "good.tar"
    old = program(good, "one")
    install_archive(good, tmp_path / "p", "tool", old)
    cut = tmp_path / f"cut.{kind}"
    tar(cut, entry("big", os.urandom(300_000)))
    cut.write_bytes(cut.read_bytes()[:200_000])
    with pytest.raises(SourceError, match="refused or damaged"):
        install_archive(cut, tmp_path / "p", "tool", digest_of(cut))
    assert is_installed(tmp_path / "p", "tool", old)
    assert not list((tmp_path / "p/tool").glob(".build-*"))


def test_a_digest_mismatch_is_refused(tmp_path: Path) -> None:
    program(tmp_path / "one.tar", "one")
    with pytest.raises(SourceError, match=f"one.tar: its sha256 is .*, expected {'0' * 64}"):
        install_archive(tmp_path / "one.tar", tmp_path / "p", "tool", "0" * 64)


@pytest.mark.parametrize("digest", ["", "..", "A" * 64, "0" * 63])
def test_a_malformed_digest_is_refused(tmp_path: Path, digest: str) -> None:
    with pytest.raises(SourceError, match="is not a sha256"):
        install_archive(tmp_path / "one.tar", tmp_path / "p", "tool", digest)


def test_an_unknown_kind_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "one.rar").write_bytes(b"x")
    with pytest.raises(SourceError, match=r"must be one of \.tar, "):
        install_archive(tmp_path / "one.rar", tmp_path, "tool", digest_of(tmp_path / "one.rar"))


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.unit.sources.test_install import install_archive
archive, folder, digest, module, function = sys.argv[1:]
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
import importlib
owner = importlib.import_module(module)
setattr(owner, function, die)
install_archive(Path(archive), Path(folder), "tool", digest)
"""


@pytest.mark.parametrize(
    ("module", "function"),
    [
        ("hearth.sources.programs", "_let_all_read"),
        ("hearth.sources.programs", "write_manifest"),
        ("hearth.sources.programs", "_sync_filesystem"),
        ("hearth.sources.programs", "sync_folder"),
        ("hearth.sources.programs", "_switch"),
        ("hearth.sources.programs", "_point"),
        ("hearth.sources.programs", "_prune"),
    ],
)
def test_a_kill_at_any_point_is_repaired_by_the_next_run(
    tmp_path: Path, module: str, function: str
) -> None:
    old, new = program(tmp_path / "1.tar", "one"), program(tmp_path / "2.tar", "two")
    install_archive(tmp_path / "1.tar", tmp_path / "p", "tool", old)
    arguments = [str(tmp_path / "2.tar"), str(tmp_path / "p"), new, module, function]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments], timeout=20, check=False, cwd=ROOT
    )
    assert killed.returncode == -signal.SIGKILL
    # The target of `current` is complete.
    current = os.readlink(tmp_path / "p/tool/current")
    assert current in (old, new)
    assert is_installed(tmp_path / "p", "tool", current)
    install_archive(tmp_path / "2.tar", tmp_path / "p", "tool", new)
    assert is_installed(tmp_path / "p", "tool", new)
    left = sorted(p.name for p in (tmp_path / "p/tool").iterdir())
    assert left == sorted([".lock", "current", "previous", old, new])


def test_a_living_child_of_a_killed_run_is_waited_for(tmp_path: Path) -> None:
    """The folder that a killed run's `zstd` or `uv` still writes to is not removed."""
    code = (
        "import os, signal, subprocess, sys; from pathlib import Path\n"
        "from hearth.sources.programs import install\n"
        "def fill(folder, lock):\n"
        "    subprocess.Popen(['sh', '-c', 'sleep 1.5; ls -d \"$0\" > \"$1\"', str(folder),"
        " sys.argv[2]], pass_fds=(lock,))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "install(Path(sys.argv[1]), 'tool', '0' * 64, fill)\n"
    )
    proof = tmp_path / "proof"
    subprocess.run([sys.executable, "-c", code, tmp_path / "p", proof], timeout=20, check=False)
    assert list((tmp_path / "p/tool").glob(".build-*"))
    digest = program(tmp_path / "1.tar", "one")
    install_archive(tmp_path / "1.tar", tmp_path / "p", "tool", digest)
    # It has ended already, and its folder was there until then.
    assert ".build-" in proof.read_text()
    assert not list((tmp_path / "p/tool").glob(".build-*"))
