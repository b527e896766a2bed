"""A plain file is installed whole or not at all, and does not lie on the disk twice."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from hearth.sources import Source, SourceError, Store
from hearth.sources import lock as locking
from hearth.sources.installers import install_plain
from hearth.sources.programs import Installed
from hearth.sources.unpack import sha256_of

NAME = "weights.onnx"


def write_file(path: Path, content: bytes = b"weights" * 1000) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return sha256_of(path)


def install_file(
    file: Path, programs: Path, name: str, digest: str, called: str, *, keep: bool = True
) -> Installed:
    """Install a local file; one that is not kept is what we downloaded as NAME-1-URL's end."""
    last = file.name.removeprefix(f"{name}-1-")
    source = Source(name, "1", str(file) if keep else f"https://example.org/{last}", digest)
    store = Store(file.parent / "no-inventory", {}, file.parent, programs)
    return install_plain(store, {called: source}, name)


def test_installs_under_its_name_and_does_nothing_the_second_time(tmp_path: Path) -> None:
    digest = write_file(tmp_path / "source.bin")
    first = install_file(tmp_path / "source.bin", tmp_path / "programs", "model", digest, NAME)
    assert (first.did, first.changed) == ("install", True)
    home = tmp_path / "programs" / "model"
    assert os.readlink(home / "current") == first.digest
    assert sha256_of(home / "current" / NAME) == digest
    assert stat.S_IMODE((home / "current" / NAME).stat().st_mode) == 0o644
    number = (home / "current" / NAME).stat().st_ino
    again = install_file(tmp_path / "source.bin", tmp_path / "programs", "model", digest, NAME)
    assert again.did == "nothing"
    assert (home / "current" / NAME).stat().st_ino == number
    assert (tmp_path / "source.bin").exists(), "another owner's file stays"


def test_its_subfolder_is_made_and_readable_by_all(tmp_path: Path) -> None:
    digest = write_file(tmp_path / "source.bin")
    called = f"tiny/{NAME}"
    install_file(tmp_path / "source.bin", tmp_path / "programs", "model", digest, called)
    place = tmp_path / "programs" / "model" / "current" / "tiny"
    assert stat.S_IMODE(place.stat().st_mode) == 0o755
    assert sha256_of(place / NAME) == digest


def test_our_own_download_is_moved_in_not_copied(tmp_path: Path) -> None:
    digest = write_file(tmp_path / "downloads" / "model-1-a")
    number = (tmp_path / "downloads" / "model-1-a").stat().st_ino
    ours = tmp_path / "downloads" / "model-1-a"
    install_file(ours, tmp_path / "programs", "model", digest, NAME, keep=False)
    there = tmp_path / "programs" / "model" / "current" / NAME
    assert (there.stat().st_ino, there.stat().st_nlink) == (number, 1)
    assert not ours.exists()


def test_without_hard_links_it_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = write_file(tmp_path / "model-1-a")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    install_file(tmp_path / "model-1-a", tmp_path / "programs", "model", digest, NAME, keep=False)
    assert sha256_of(tmp_path / "programs" / "model" / "current" / NAME) == digest
    assert not (tmp_path / "model-1-a").exists()


def test_a_file_with_another_hard_link_is_copied(tmp_path: Path) -> None:
    digest = write_file(tmp_path / "model-1-a")
    os.link(tmp_path / "model-1-a", tmp_path / "theirs")
    install_file(tmp_path / "model-1-a", tmp_path / "programs", "model", digest, NAME, keep=False)
    (tmp_path / "theirs").write_bytes(b"changed by its owner")
    assert sha256_of(tmp_path / "programs" / "model" / "current" / NAME) == digest


def test_a_digest_mismatch_is_refused_and_the_old_file_stays(tmp_path: Path) -> None:
    old = write_file(tmp_path / "old")
    install_file(tmp_path / "old", tmp_path / "programs", "model", old, NAME)
    write_file(tmp_path / "new", b"something else")
    with pytest.raises(SourceError, match=f"model 1 from .*new: .* expected {'0' * 64}"):
        install_file(tmp_path / "new", tmp_path / "programs", "model", "0" * 64, NAME)
    home = tmp_path / "programs" / "model"
    assert sha256_of(home / "current" / NAME) == old
    assert not list(home.glob(".build-*"))


def test_another_version_keeps_the_previous_one(tmp_path: Path) -> None:
    one, two = write_file(tmp_path / "1", b"one"), write_file(tmp_path / "2", b"two")
    first = install_file(tmp_path / "1", tmp_path / "programs", "model", one, NAME)
    install_file(tmp_path / "2", tmp_path / "programs", "model", two, NAME)
    current = tmp_path / "programs" / "model" / "current" / NAME
    assert current.read_bytes() == b"two"
    before = tmp_path / "programs" / "model" / "previous"
    assert os.readlink(before) == first.digest
    assert (before / NAME).read_bytes() == b"one"


def test_the_same_bytes_are_installed_under_a_new_name(tmp_path: Path) -> None:
    digest = write_file(tmp_path / "model-1-a")
    install_file(tmp_path / "model-1-a", tmp_path / "programs", "model", digest, "before.onnx")
    done = install_file(tmp_path / "model-1-a", tmp_path / "programs", "model", digest, NAME)
    assert done.changed
    assert (tmp_path / "programs" / "model" / "current" / NAME).is_file()


def test_after_a_kill_at_any_moment_the_next_run_installs_it(tmp_path: Path) -> None:
    digest = write_file(tmp_path / "downloads" / "model-1-a", os.urandom(24 << 20))
    script = (
        "import sys; from pathlib import Path\n"
        "from tests.unit.sources.test_plain import install_file\n"
        "t = Path(sys.argv[1]); print('go', flush=True); "
        "file = t/'downloads'/'model-1-a'; "
        f"install_file(file, t/'programs', 'model', '{digest}', '{NAME}', keep=False)"
    )
    root = Path(__file__).parents[3]
    spare = tmp_path / "spare"
    shutil.copyfile(tmp_path / "downloads" / "model-1-a", spare)
    for wait_s in (0.0, 0.005, 0.01, 0.02, 0.04):
        with subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, cwd=root
        ) as run:
            assert run.stdout
            run.stdout.readline()
            time.sleep(wait_s)
            run.send_signal(signal.SIGKILL)
        left = tmp_path / "downloads" / "model-1-a"
        current = tmp_path / "programs" / "model" / "current" / NAME
        assert left.exists() or current.exists(), f"killed after {wait_s} s, and no copy is left"
        if not left.exists():
            shutil.copyfile(spare, left)
        done = install_file(left, tmp_path / "programs", "model", digest, NAME, keep=False)
        assert done.did in ("install", "nothing", "switch", "repair")
        assert sha256_of(current) == digest
        shutil.rmtree(tmp_path / "programs")
        shutil.copyfile(spare, left)


def test_a_release_file_is_fetched_recorded_and_not_fetched_twice(tmp_path: Path) -> None:
    digest = write_file(tmp_path / "mirror" / "weights-1.onnx")
    (tmp_path / "inventory").mkdir()
    source = Source("model", "1", "https://example.org/weights-1.onnx")

    def install(write: bool = True) -> str:
        mirrors = {"https://example.org/": f"{tmp_path}/mirror/"}
        places = (tmp_path / "inventory", mirrors, tmp_path / "downloads", tmp_path / "programs")
        return install_plain(Store(*places), {NAME: source}, "model", write=write).did

    assert install(write=False) == "install"
    assert not (tmp_path / "programs").exists()
    assert install() == "install"
    recorded = yaml.safe_load(locking.lock_file(tmp_path / "inventory").read_text())["sources"]
    assert recorded["model@1"]["sha256"] == digest
    mirror = tmp_path / "mirror" / "weights-1.onnx"
    assert mirror.exists(), "a mirror's file stays"
    mirror.unlink()
    assert install() == "nothing"
    there = tmp_path / "programs" / "model" / "current" / NAME
    there.write_bytes(b"damaged")
    with pytest.raises(SourceError, match="there is no such file"):
        install()
    write_file(mirror, b"another file")
    with pytest.raises(SourceError, match=f"expected {digest}"):
        install()
    write_file(mirror)
    assert install() == "repair"
    assert sha256_of(there) == digest


def test_files_that_belong_together_are_switched_together(tmp_path: Path) -> None:
    mirror, folder = tmp_path / "mirror", tmp_path / "programs" / "model" / "current"
    write_file(mirror / "weights.pth")
    write_file(mirror / "config.json", b"{}")
    (tmp_path / "inventory").mkdir()
    files = {
        "weights.pth": Source("weights", "1", "https://example.org/weights.pth"),
        "config.json": Source("config", "1", "https://example.org/config.json"),
    }

    def install() -> str:
        mirrors = {"https://example.org/": f"{mirror}/"}
        places = (tmp_path / "inventory", mirrors, tmp_path / "downloads", tmp_path / "programs")
        return install_plain(Store(*places), files, "model").did

    assert install() == "install"
    assert {path.name for path in folder.iterdir()} >= {"weights.pth", "config.json"}
    assert install() == "nothing"
    before = os.readlink(folder)
    write_file(mirror / "config-2.json", b"{ }")
    files["config.json"] = Source("config", "2", "https://example.org/config-2.json")
    assert install() == "install"
    assert os.readlink(folder) != before
    assert (folder / "config.json").read_bytes() == b"{ }"
    assert (folder / "weights.pth").is_file()
