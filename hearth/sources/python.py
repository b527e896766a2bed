"""Build the folder of a Python program for instances: locked packages and our own beside them."""

import hashlib
import platform
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hearth.sources import SourceError
from hearth.sources.installers import copy_folder, folder_digest
from hearth.sources.programs import Installed, install
from hearth.sources.unpack import sha256_of

# Fits Debian 12 (glibc 2.36) and 13.
GLIBC = "manylinux_2_36"
BUILD_LIMIT_S = 1800
# Increase this when the steps below change in a way that their inputs do not show.
_BUILD_VERSION = 3
_VERSION = re.compile(r"3\.\d{1,2}")


def install_python(
    requirements: Path,
    packages: Sequence[Path],
    programs: Path,
    name: str,
    python_version: str,
    *,
    uv: str | Path = "uv",
    write: bool = True,
) -> Installed:
    """Make PROGRAMS/NAME/current importable: the locked `requirements` and our `packages`.

    It goes into PYTHONPATH of Python `python_version` ("3.13") of an instance. Only wheels with
    the hashes in `requirements` are used. `packages` are the importable folders themselves.

    Raises:
        SourceError: uv's error, in one line; the version before stays.
    """
    digest = python_digest(requirements, packages, python_version)

    def fill(folder: Path, lock: int) -> None:
        _install_wheels(folder, requirements, name, python_version, uv, lock)
        for package in packages:
            if (folder / package.name).exists():
                raise SourceError(f"{name}: a package of {requirements} is called {package.name}")
            copy_folder(package, folder / package.name, name)
        _compile(folder, python_version, lock)

    return install(programs, name, digest, fill, write=write)


def python_digest(requirements: Path, packages: Sequence[Path], python_version: str) -> str:
    """Return the sha256 of everything that the built folder depends on."""
    if not _VERSION.fullmatch(python_version):
        raise SourceError(f"python {python_version!r}: write a version such as 3.13")
    lines = [f"{_BUILD_VERSION} {_target_platform()} {python_version}", sha256_of(requirements)]
    for package in packages:
        if not package.is_dir():
            raise SourceError(f"{package}: this folder of our own program is missing: put it back")
        lines.append(f"{package.name} {folder_digest(package)}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _target_platform() -> str:
    return f"{platform.machine()}-{GLIBC}"


def _install_wheels(
    folder: Path, requirements: Path, name: str, python_version: str, uv: str | Path, lock: int
) -> None:
    command = [
        *(str(uv), "pip", "install", "--quiet", "--no-progress", "--target", str(folder)),
        *("--python-version", python_version, "--python-platform", _target_platform()),
        # A hard link into uv's cache would change with whatever changes here.
        *("--link-mode", "copy", "--require-hashes", "--only-binary", ":all:"),
        # The lock is complete, and leaves out on purpose what a library only declares as needed.
        "--no-deps",
        # The machine's trust store (for an office's proxy, say) applies here, too.
        *("--no-python-downloads", "--system-certs"),
        *("-r", str(requirements)),
    ]
    try:
        done = _run(command, lock)
    except FileNotFoundError:
        raise SourceError(f"{name}: {uv} is missing: run scripts/up, which installs uv") from None
    except subprocess.TimeoutExpired:
        raise SourceError(
            f"{name}: uv did not end within {BUILD_LIMIT_S} s: check that the package index "
            "answers, then run this again"
        ) from None
    if done.returncode != 0:
        # uv draws arrows and lines around its messages.
        words = " ".join(done.stderr.encode("ascii", "replace").decode().replace("?", " ").split())
        raise SourceError(
            f"{name}: uv cannot install {requirements}: {words[-600:] or 'no reason'}"
        )
    (folder / ".lock").unlink(missing_ok=True)


def _compile(folder: Path, python_version: str, lock: int) -> None:
    """Write byte code when this machine has the same Python; instances cannot write it."""
    python = Path(f"/usr/bin/python{python_version}")
    if not python.exists():
        return
    # Packages contain templates and tests that do not compile; nothing imports those.
    _run([str(python), "-I", "-m", "compileall", "-q", "-j", "0", str(folder)], lock)


def _run(argv: list[str], lock: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - fixed words and our own paths, no shell
        argv,
        check=False,
        timeout=BUILD_LIMIT_S,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        pass_fds=(lock,),
    )
