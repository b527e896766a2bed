"""A third-party program is patched in a fresh folder, and the old one stays for a rollback."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from hearth.sources import Source, SourceError, Store
from hearth.sources import lock as locking
from hearth.sources.installers import (
    Change,
    folder_digest,
    install_folder,
    install_release,
)
from hearth.sources.programs import Installed
from hearth.sources.unpack import sha256_of

FILES = {"api/main.py": b"print('upstream')\n", "VERSION": b"1\n"}
NAME = "upstream"


def packed(path: Path, files: dict[str, bytes] = FILES, top: str = "Upstream-1/") -> str:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", pax_headers={"comment": "0" * 40}) as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(top + name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    path.write_bytes(gzip.compress(plain.getvalue(), mtime=0))
    return sha256_of(path)


def install_changed(
    archive: Path, digest: str, programs: Path, name: str, change: Change
) -> Installed:
    store = Store(programs / "no-inventory", {}, programs=programs)
    return install_release(store, Source(name, "1", str(archive), digest), name, change)


def shout(folder: Path) -> None:
    path = folder / "api/main.py"
    path.write_bytes(path.read_bytes().replace(b"upstream", b"PATCHED"))


def refuse(folder: Path) -> None:
    raise SourceError("api/main.py: no loop is there")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".hearth")
    }


def test_a_change_is_made_in_a_fresh_folder_and_undone_byte_for_byte(tmp_path: Path) -> None:
    digest = packed(tmp_path / "u.tar.gz")
    programs, archive = tmp_path / "programs", tmp_path / "u.tar.gz"
    install_changed(archive, digest, programs, NAME, Change())
    current = programs / NAME / "current"
    assert contents(current.resolve()) == FILES
    plain = os.readlink(current)
    done = install_changed(archive, digest, programs, NAME, Change(shout, "one"))
    assert done.did == "install"
    assert (current / "api/main.py").read_bytes() == b"print('PATCHED')\n"
    # The folder that ran until now is untouched: a running program keeps its files.
    assert contents(programs / NAME / plain) == FILES
    back = install_changed(archive, digest, programs, NAME, Change())
    assert (back.did, os.readlink(current)) == ("switch", plain)
    assert contents(current.resolve()) == FILES
    assert os.readlink(programs / NAME / "previous") == done.digest


def test_the_second_time_nothing_is_done_and_another_change_makes_another_folder(
    tmp_path: Path,
) -> None:
    digest = packed(tmp_path / "u.tar.gz")
    install = (tmp_path / "u.tar.gz", digest, tmp_path / "programs", NAME)
    assert install_changed(*install, Change(shout, "one")).did == "install"
    assert install_changed(*install, Change(shout, "one")).did == "nothing"
    assert install_changed(*install, Change(shout, "two")).did == "install"
    assert Change().digest_with(digest) != Change().digest_with("0")
    assert Change().digest_with(digest) != Change(links={"a": "b"}).digest_with(digest)


def test_a_change_that_does_not_fit_leaves_the_old_program(tmp_path: Path) -> None:
    digest = packed(tmp_path / "u.tar.gz")
    install = (tmp_path / "u.tar.gz", digest, tmp_path / "programs", NAME)
    before = install_changed(*install, Change())
    with pytest.raises(SourceError, match="no loop is there"):
        install_changed(*install, Change(refuse, "new"))
    home = tmp_path / "programs" / NAME
    assert os.readlink(home / "current") == before.digest
    assert sorted(path.name for path in home.iterdir()) == sorted(
        [".lock", before.digest, "current"]
    )


def test_an_archive_without_a_top_folder_is_installed_as_it_is(tmp_path: Path) -> None:
    digest = packed(tmp_path / "u.tar.gz", top="")
    done = install_changed(tmp_path / "u.tar.gz", digest, tmp_path / "programs", NAME, Change())
    assert contents(done.path) == FILES


def test_a_subfolder_may_have_the_name_of_the_top_folder(tmp_path: Path) -> None:
    digest = packed(tmp_path / "u.tar.gz", {"Upstream-1/x": b"x", "b": b"b"})
    done = install_changed(tmp_path / "u.tar.gz", digest, tmp_path / "programs", NAME, Change())
    assert contents(done.path) == {"Upstream-1/x": b"x", "b": b"b"}


def test_links_lead_to_files_of_another_program(tmp_path: Path) -> None:
    digest = packed(tmp_path / "u.tar.gz")
    programs = tmp_path / "programs"
    (programs / "weights/current").mkdir(parents=True)
    (programs / "weights/current/w.pth").write_bytes(b"weights")
    change = Change(links={"api/w.pth": "weights/current/w.pth"})
    done = install_changed(tmp_path / "u.tar.gz", digest, programs, NAME, change)
    assert (programs / NAME / "current/api/w.pth").read_bytes() == b"weights"
    # In an instance the same folders have another parent.
    assert not os.readlink(done.path / "api/w.pth").startswith("/")
    change = Change(links={"models/w.pth": "weights/current/w.pth"})
    with pytest.raises(SourceError, match=r"no room for models/w\.pth"):
        install_changed(tmp_path / "u.tar.gz", digest, programs, NAME, change)


def test_a_digest_mismatch_is_not_installed(tmp_path: Path) -> None:
    packed(tmp_path / "u.tar.gz")
    with pytest.raises(SourceError, match="expected 00"):
        install_changed(tmp_path / "u.tar.gz", "00", tmp_path / "programs", NAME, Change())


def test_a_folder_is_copied_and_never_changed_itself(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    for name, content in FILES.items():
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_bytes(content)
    (mine / ".git").mkdir()
    (mine / ".git/HEAD").write_text("x")
    programs, change = tmp_path / "programs", Change(shout, "one")
    done = install_folder(mine, programs, NAME, change)
    assert (done.path / "api/main.py").read_bytes() == b"print('PATCHED')\n"
    assert not (done.path / ".git").exists()
    assert (mine / "api/main.py").read_bytes() == FILES["api/main.py"]
    assert install_folder(mine, programs, NAME, change).did == "nothing"
    before = folder_digest(mine)
    (mine / "api/main.py").chmod(0o755)
    assert folder_digest(mine) != before
    (mine / "VERSION").write_bytes(b"2\n")
    assert install_folder(mine, programs, NAME, change, write=False).did == "install"
    assert install_folder(mine, programs, NAME, change).did == "install"
    with pytest.raises(SourceError, match="no such folder"):
        install_folder(tmp_path / "gone", programs, NAME, change)


def test_the_target_of_a_link_in_a_folder_is_not_touched(tmp_path: Path) -> None:
    other, mine = tmp_path / "bigdisk", tmp_path / "mine"
    other.mkdir()
    mine.mkdir()
    (other / "w.pth").write_bytes(b"theirs")
    (mine / "models").symlink_to(other)
    change = Change(links={"models/w.pth": "weights/current/w.pth"})
    with pytest.raises(SourceError, match=r"no room for models/w\.pth"):
        install_folder(mine, tmp_path / "programs", NAME, change)
    assert (other / "w.pth").read_bytes() == b"theirs"


def test_a_folder_that_changes_while_it_is_copied_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "VERSION").write_bytes(b"1\n")
    copy = shutil.copytree

    def worked_in(*words: Any, **options: Any) -> Any:
        (mine / "VERSION").write_bytes(b"2\n")
        return copy(*words, **options)

    monkeypatch.setattr(shutil, "copytree", worked_in)
    with pytest.raises(SourceError, match="it changed; run this again"):
        install_folder(mine, tmp_path / "programs", NAME, Change())


def test_a_file_that_cannot_be_copied_is_named(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    os.mkfifo(mine / "pipe")
    with pytest.raises(SourceError, match=r"mine/pipe cannot be copied \(.*named pipe"):
        install_folder(mine, tmp_path / "programs", NAME, Change())


@pytest.mark.parametrize(
    "content",
    [b"<html>not here</html>", gzip.compress(b"x" * 2000, mtime=0)[:-9]],
    ids=["a page", "cut off"],
)
def test_a_damaged_archive_is_one_line(tmp_path: Path, content: bytes) -> None:
    archive = tmp_path / "u.tar.gz"
    archive.write_bytes(content)
    with pytest.raises(SourceError, match=r"upstream: .*u\.tar\.gz is refused or damaged"):
        install_changed(archive, sha256_of(archive), tmp_path / "programs", NAME, Change())


def test_a_recorded_archive_is_fetched_once_for_all_changes(tmp_path: Path) -> None:
    digest = packed(tmp_path / "mirror.tar.gz")
    inventory, downloads, programs = (tmp_path / n for n in ("inventory", "downloads", "programs"))
    source = Source("upstream", "1", "https://code.example/v1.tar.gz")
    mirrors = {"https://code.example/v1.tar.gz": str(tmp_path / "mirror.tar.gz")}
    where = (Store(inventory, mirrors, downloads, programs), source, NAME)
    assert install_release(*where, Change(), write=False).did == "install"
    assert not programs.exists()
    first = install_release(*where, Change())
    # Its digest is recorded, so that another file at the same address is refused from now on.
    assert digest in locking.lock_file(inventory).read_text()
    assert (first.did, install_release(*where, Change()).did) == ("install", "nothing")
    (tmp_path / "mirror.tar.gz").unlink()
    assert install_release(*where, Change()).did == "nothing"
