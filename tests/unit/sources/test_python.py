"""A Python program for instances: locked wheels and our package, whole or not at all.

The wheel is built here, so that no package index is used.
"""

import base64
import hashlib
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from hearth.project import current
from hearth.sources import SourceError
from hearth.sources.installers import install_python, python_digest

from .test_install import is_installed

UV = current().uv


@pytest.fixture(autouse=True)
def without_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A wheel, the requirements that lock it, and a package of ours."""
    files = {
        "tiny/__init__.py": b"VALUE = 7\n",
        "tiny-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL": (
            b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    records = []
    wheel = tmp_path / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
            encoded = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            records.append(f"{name},sha256={encoded.decode()},{len(content)}")
        records.append("tiny-1.0.dist-info/RECORD,,")
        archive.writestr("tiny-1.0.dist-info/RECORD", "\n".join(records) + "\n")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock = f"tiny @ {wheel.as_uri()} --hash=sha256:{digest}\n"
    (tmp_path / "tool.txt").write_text(lock)
    package = tmp_path / "services" / "hearth_tool"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__pycache__" / "old.pyc").touch()
    (package / "__init__.py").write_text("import tiny\nprint(tiny.VALUE * 6)\n")
    return tmp_path


def install(place: Path, version: str = "3.13", write: bool = True, uv: Path = UV) -> str:
    return install_python(
        place / "tool.txt",
        [place / "services/hearth_tool"],
        place / "p",
        "tool",
        version,
        uv=uv,
        write=write,
    ).did


def test_an_installed_program_can_be_imported(place: Path) -> None:
    assert install(place, write=False) == "install"
    assert not (place / "p").exists()
    assert install(place) == "install"
    done = subprocess.run(
        [sys.executable, "-B", "-c", "import hearth_tool"],
        env={"PYTHONPATH": str(place / "p/tool/current")},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.stdout == "42\n", done.stderr
    assert not list((place / "p/tool/current").rglob("old.pyc"))
    assert not (place / "p/tool/current/.lock").exists()
    assert install(place) == "nothing"


def test_every_input_makes_another_digest(place: Path) -> None:
    package = place / "services/hearth_tool"

    def digest(version: str = "3.13") -> str:
        return python_digest(place / "tool.txt", [package], version)

    seen = [digest(), digest("3.11")]
    (package / "more.py").write_text("")
    seen.append(digest())
    (package / "more.py").rename(package / "other.py")
    seen.append(digest())
    (package / "other.py").write_text("1")
    seen.append(digest())
    (place / "tool.txt").write_text("# another\n")
    seen.append(digest())
    assert len(set(seen)) == len(seen)
    (package / "__pycache__" / "new.pyc").touch()
    assert digest() == seen[-1]


def test_a_new_package_is_a_new_program_and_damage_is_repaired(place: Path) -> None:
    install(place)
    (place / "services/hearth_tool/__init__.py").write_text("print('new')\n")
    assert install(place) == "install"
    (place / "p/tool/current/tiny/__init__.py").unlink()
    assert install(place) == "repair"
    assert (place / "p/tool/current/tiny/__init__.py").exists()


def test_a_wrong_hash_is_refused_and_the_old_one_stays(place: Path) -> None:
    install(place)
    lock = (place / "tool.txt").read_text()
    (place / "tool.txt").write_text(lock.replace("sha256:", "sha256:0000")[:-5] + "\n")
    with pytest.raises(
        SourceError, match=r"tool: uv cannot install .*tool\.txt: .*[Hh]ash"
    ) as caught:
        install(place)
    assert "\n" not in str(caught.value)
    assert (place / "p/tool/current/tiny").is_dir()
    assert not list((place / "p/tool").glob(".build-*"))


def test_a_package_without_hash_is_refused(place: Path) -> None:
    (place / "tool.txt").write_text("tiny==1.0\n")
    with pytest.raises(SourceError, match="uv cannot install"):
        install(place)


def test_a_package_of_the_same_name_is_refused(place: Path) -> None:
    (place / "services/tiny").mkdir()
    with pytest.raises(SourceError, match="is called tiny"):
        install_python(
            place / "tool.txt", [place / "services/tiny"], place / "p", "tool", "3.13", uv=UV
        )


@pytest.mark.parametrize(
    ("version", "words"), [("3", "write a version such"), ("3.13.1", "write a version such")]
)
def test_a_wrong_version_is_one_line(place: Path, version: str, words: str) -> None:
    with pytest.raises(SourceError, match=words):
        install(place, version)


def test_missing_files_are_one_line(place: Path) -> None:
    with pytest.raises(SourceError, match=r"tool2\.txt: No such file"):
        install_python(place / "tool2.txt", [], place / "p", "tool", "3.13", uv=UV)
    with pytest.raises(SourceError, match="is missing: put it back"):
        install_python(place / "tool.txt", [place / "no"], place / "p", "tool", "3.13", uv=UV)
    with pytest.raises(SourceError, match="uv-is-not-here is missing"):
        install_python(place / "tool.txt", [], place / "p", "t", "3.13", uv="uv-is-not-here")


def test_a_kill_while_uv_works_is_repaired(place: Path) -> None:
    """The orphan continues to write; the next run waits for it and builds its own folder."""
    slow, order = place / "slow-uv", place / "order"
    # It cannot be done before the kill, and writes its line if its folder is still there.
    slow.write_text(
        f"#!/bin/sh\n: > {place}/started\n"
        f"while [ ! -e {place}/killed ]; do sleep 0.05; done; sleep 1\n"
        f'[ -d "$6" ] && {UV} "$@" && echo orphan >> {order}\n'
    )
    after = place / "after-uv"
    after.write_text(f'#!/bin/sh\necho after >> {order}\nexec {UV} "$@"\n')
    for script in (slow, after):
        script.chmod(0o755)
    code = (
        "import sys; from pathlib import Path\n"
        "from hearth.sources.installers import install_python\n"
        "p = Path(sys.argv[1])\n"
        "install_python(p / 'tool.txt', [p / 'services/hearth_tool'], p / 'p', 'tool', '3.13',"
        " uv=p / 'slow-uv')\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(place)]) as running:
        deadline = time.monotonic() + 60
        while not (place / "started").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(running.pid, signal.SIGKILL)
    assert list((place / "p/tool").glob(".build-*"))
    (place / "killed").touch()
    assert install(place, uv=after) == "install"
    assert order.read_text() == "orphan\nafter\n"
    digest = python_digest(place / "tool.txt", [place / "services/hearth_tool"], "3.13")
    assert is_installed(place / "p", "tool", digest)
    assert not list((place / "p/tool").glob(".build-*"))
