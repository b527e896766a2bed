"""Builds the real Ollama into the layout of its release archive, without its release server.

Its Go program comes from the Go module proxy, `llama-server` and its libraries from Debian. What
differs from the published archive: no CUDA, ROCm and MLX folders, and a llama.cpp that Debian
released where Ollama pins a commit of its own. `lib/ollama/BUILT_FROM.json` in the archive says so.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shlex
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import zstandard

from tests.mock_upstreams import MockUpstreamsError

# The newest version that the Go module proxy serves; it returns 403 for 0.35.0.
VERSION = "0.34.4"
SUITE = "forky"
PACKAGES = ("llama.cpp-tools", "libggml0-backend-vulkan")
LIBRARIES = "usr/lib/x86_64-linux-gnu"
# Where each file of the archive's lib/ollama comes from in the extracted packages. libc, libstdc++
# and libgcc are in every Debian; libvulkan comes with the drivers, as for the published archive.
PARTS: tuple[tuple[str, str], ...] = (
    ("", "usr/bin/llama-server"),
    ("", "usr/bin/llama-quantize"),
    ("", f"{LIBRARIES}/llama/libllama-server-impl.so"),
    ("", f"{LIBRARIES}/llama/libllama-quantize-impl.so"),
    ("", f"{LIBRARIES}/libllama*.so.*"),
    ("", f"{LIBRARIES}/libmtmd.so.*"),
    ("", f"{LIBRARIES}/libggml*.so.*"),
    ("", f"{LIBRARIES}/ggml/backends*/libggml-cpu-*.so"),
    ("vulkan/", f"{LIBRARIES}/ggml/backends*/libggml-vulkan.so"),
    ("", f"{LIBRARIES}/libgomp.so.*"),
    ("", f"{LIBRARIES}/libssl.so.*"),
    ("", f"{LIBRARIES}/libcrypto.so.*"),
    ("", f"{LIBRARIES}/libz.so.*"),
    ("", f"{LIBRARIES}/libzstd.so.*"),
)
# Increase it when the contents change for another reason than the values above.
RECIPE = 1
COMPILER = ("golang-go", "g++", "ca-certificates")
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# Settings for reaching the Go module proxy from here.
PASSED_ON = ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "GOPROXY", "GOSUMDB")
MMDEBSTRAP = (
    # As root it makes all mounts private; in its own namespace that is harmless.
    *("unshare", "--mount", "mmdebstrap"),
    # A mirror's snapshot may be older than its Release file allows.
    '--aptopt=Acquire::Check-Valid-Until "false"',
)
CHANGELOG = "changelog.Debian.gz"
BUILD_S = 900
FILE_NAME = "ollama-linux-amd64.tar.zst"
# The real release lists the digests of its files under this name.
SUMS_NAME = "sha256sum.txt"


def recipe_digest() -> str:
    """Return the digest that names this recipe in the cache: same recipe, same folder."""
    recipe = json.dumps([RECIPE, VERSION, SUITE, PACKAGES, PARTS], sort_keys=True)
    return hashlib.sha256(recipe.encode()).hexdigest()[:16]


def archive_path(cache: Path) -> Path:
    """Return the path of this recipe's archive, whether it is built or not."""
    return cache / "ollama" / recipe_digest() / FILE_NAME


def build(cache: Path) -> Path:
    """Return the archive, built unless the cache holds it; errors name the missing package."""
    target = archive_path(cache)
    if target.exists():
        return target
    if shutil.which("mmdebstrap") is None:
        raise MockUpstreamsError("mmdebstrap is missing for Ollama: apt-get install mmdebstrap")
    target.parent.mkdir(parents=True, exist_ok=True)
    # On the cache's own file system: /tmp may be small, and the final rename must be atomic.
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        program = build_program(Path(scratch))
        packages = extract_packages(Path(scratch) / "packages")
        unfinished = Path(scratch) / FILE_NAME
        pack(program, packages, unfinished)
        with unfinished.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        target.with_name(SUMS_NAME).write_text(f"{digest}  ./{FILE_NAME}\n")
        unfinished.replace(target)
    return target


def build_program(scratch: Path) -> Path:
    """Build Ollama's Go program with its true version and return its path.

    In a throw-away Debian: this machine's own Go may be missing or too old (Debian 12 has 1.19),
    and neither is a reason to install or change one.
    """
    flags = f"-s -w -X github.com/ollama/ollama/version.Version={VERSION}"
    module = f"github.com/ollama/ollama@v{VERSION}"
    # `auto` fetches the Go release that the module asks for, should Debian's be older.
    settings = {"HOME": "/build", "PATH": "/usr/bin:/bin", "GOBIN": "/build", "GOTOOLCHAIN": "auto"}
    settings |= {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    words = [f"{name}={value}" for name, value in settings.items()]
    build = ["env", "-i", *words, "go", "install", "-trimpath", "-ldflags", flags, module]
    run_step(
        [
            *(*MMDEBSTRAP, "--variant=apt", "--format=null"),
            f"--include={','.join(COMPILER)}",
            # This machine's trusted authorities, such as a proxy's.
            f"--customize-hook=copy-in {CERTIFICATES} {CERTIFICATES.parent}",
            f'--customize-hook=mkdir "$1/build" && chroot "$1" {shlex.join(build)}',
            f"--customize-hook=download /build/ollama {shlex.quote(str(scratch / 'ollama'))}",
            *(SUITE, "-"),
        ],
        dict(os.environ),
    )
    (scratch / "ollama").chmod(0o755)
    return scratch / "ollama"


def extract_packages(folder: Path) -> Path:
    """Extract the packages with their dependencies into `folder`; nothing is installed here."""
    run_step(
        [
            *(*MMDEBSTRAP, "--variant=extract", f"--include={','.join(PACKAGES)}"),
            *(SUITE, str(folder)),
        ],
        dict(os.environ),
    )
    return folder


def pack(program: Path, packages: Path, target: Path) -> None:
    """Write the archive with the members, the order and the times of every other build."""
    compressor = zstandard.ZstdCompressor(level=9)
    with (
        target.open("wb") as raw,
        compressor.stream_writer(raw) as squeezed,
        tarfile.open(fileobj=squeezed, mode="w|") as archive,
    ):
        _add(archive, "bin/ollama", program)
        for name, source in sorted(library_members(packages).items()):
            _add(archive, f"lib/ollama/{name}", source)
        note = json.dumps(provenance(packages), indent=1).encode()
        member = tarfile.TarInfo("lib/ollama/BUILT_FROM.json")
        member.size, member.mode = len(note), 0o644
        archive.addfile(member, io.BytesIO(note))


def library_members(packages: Path) -> dict[str, Path]:
    """Return name under lib/ollama → file or link in the extracted packages."""
    members: dict[str, Path] = {}
    for folder, pattern in PARTS:
        found = sorted(packages.glob(pattern))
        if not found:
            raise MockUpstreamsError(
                f"{SUITE}'s packages have no {pattern}: adjust PARTS in {Path(__file__).name}"
            )
        members |= {folder + source.name: source for source in found}
    return members


def provenance(packages: Path) -> dict[str, object]:
    """Return the sources of the archive, for readers of its note."""
    changelogs = (packages / "usr/share/doc" / name / CHANGELOG for name in PACKAGES)
    heads = [gzip.decompress(path.read_bytes()).splitlines()[0].decode() for path in changelogs]
    return {
        "made_by": "Hearth's mock upstreams (tests/mock_upstreams), not by the Ollama project",
        "ollama": f"github.com/ollama/ollama@v{VERSION}",
        "suite": SUITE,
        "sources": heads,
    }


def _add(archive: tarfile.TarFile, name: str, source: Path) -> None:
    """Add one file or link, owned by root and without a time."""
    member = archive.gettarinfo(str(source), arcname=name)
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mtime = 0
    if not member.isfile():
        archive.addfile(member)
        return
    with source.open("rb") as content:
        archive.addfile(member, content)


def run_step(command: list[str], environment: dict[str, str], folder: Path | None = None) -> None:
    """Run one build step; its last lines are the error's text."""
    try:
        subprocess.run(
            command,
            env=environment,
            cwd=folder,
            check=True,
            timeout=BUILD_S,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    except subprocess.TimeoutExpired as error:
        raise MockUpstreamsError(f"{command[0]} took more than {BUILD_S} s") from error
    except subprocess.CalledProcessError as error:
        last = " | ".join(error.stderr.strip().splitlines()[-3:])
        raise MockUpstreamsError(f"{command[0]} failed ({error.returncode}): {last}") from error
