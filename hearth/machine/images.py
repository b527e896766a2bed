"""Build the small Debian systems that instances start from, out of Debian's own packages."""

import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SUITES = {"debian/12": "bookworm", "debian/13": "trixie", "debian/forky": "forky"}
# What `python3` is in each, for the environments that are built outside and handed in.
PYTHONS = {"debian/12": "3.11", "debian/13": "3.13", "debian/forky": "3.14"}
AUTHORITIES = Path("/usr/local/share/ca-certificates")
BASE_PACKAGES = (
    "ca-certificates",
    "dbus",
    "iproute2",
    "libpam-systemd",
    "python3",
    "systemd",
    "systemd-sysv",
    "udev",
)
BUILD_LIMIT_S = 900
# Raised when the recipe below changes in a way that its fields do not show.
RECIPE_VERSION = 3


class ImageError(RuntimeError):
    """An image could not be built; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What one image is made of; equal recipes give one image."""

    image: str
    packages: tuple[str, ...]
    resolver: str
    authorities: str
    version: int = RECIPE_VERSION

    @property
    def alias(self) -> str:
        """The image's name in Incus, with a digest of the recipe."""
        text = json.dumps(asdict(self), sort_keys=True).encode()
        return f"hearth-{self.image.replace('/', '-')}-{hashlib.sha256(text).hexdigest()[:12]}"


def recipe_of(service: dict[str, Any], resolver: str) -> Recipe:
    """The recipe of one service's image."""
    gate = {"caddy"} if service["paths"] else set()
    packages = sorted({*BASE_PACKAGES, *gate, *service["packages"]})
    return Recipe(service["image"], tuple(packages), resolver, _authorities())


def _authorities() -> str:
    """A digest of the certificates that the machine itself trusts; the image gets them, too."""
    digest = hashlib.sha256()
    for path in sorted(AUTHORITIES.glob("*.crt")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def apt_options() -> list[str]:
    """How the machine fetches packages (an office's proxy, a mirror's rules), for its images."""
    shown = subprocess.run(
        ["/usr/bin/apt-config", "dump", "--format", '%F "%v"%n'],
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    ).stdout
    fetching = re.compile(r"Acquire::(https?::|Check-Valid-Until|Retries|ForceIPv4)")
    return [line for line in shown.splitlines() if fetching.match(line)]


def build(recipe: Recipe, folder: Path) -> tuple[Path, Path]:
    """Build the image's root as a tar; give (metadata, root) as Incus' split form.

    Raises:
        ImageError: mmdebstrap failed or an image name is unknown.
    """
    if recipe.image not in SUITES:
        raise ImageError(f"image {recipe.image} is none of {', '.join(SUITES)}")
    root, metadata = folder / "root.tar", folder / "metadata.tar"
    try:
        subprocess.run(  # noqa: S603  fixed words and validated package names, no shell
            _command(recipe, root),
            check=True,
            capture_output=True,
            text=True,
            timeout=BUILD_LIMIT_S,
            stdin=subprocess.DEVNULL,
            # What a killed build leaves there goes with the folder; /tmp is memory on Debian 13.
            env={**os.environ, "TMPDIR": str(folder)},
        )
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if line.startswith("E:")]
        last = (lines or error.stderr.strip().splitlines() or ["no output"])[-1]
        raise ImageError(f"image {recipe.image}: mmdebstrap: {last}") from None
    except subprocess.TimeoutExpired:
        raise ImageError(f"image {recipe.image} was not built in {BUILD_LIMIT_S} s") from None
    _write_metadata(recipe, metadata)
    return metadata, root


def _command(recipe: Recipe, root: Path) -> list[str]:
    # networkd stays out: a routed NIC gets its address and route from Incus itself. Debian's own
    # Caddy stays out, too: the gate is a unit of ours.
    # Where the machine trusts a certificate of its own (an office's proxy), its instances do too.
    hooks = [
        # What the machine's apt was told is of use while the image is built and not after.
        'rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap"',
        'rm -f "$1/etc/resolv.conf" "$1/etc/hostname"',
        f'echo "nameserver {recipe.resolver}" > "$1/etc/resolv.conf"',
        # A small Debian 12 has none, and programs that ask for localhost would ask the resolver.
        '[ -e "$1/etc/hosts" ] || echo "127.0.0.1 localhost" > "$1/etc/hosts"',
        'mkdir -p "$1/opt/hearth"',
        "for unit in systemd-networkd.service systemd-networkd.socket systemd-resolved.service "
        "apt-daily.timer apt-daily-upgrade.timer caddy.service; do "
        'ln -sf /dev/null "$1/etc/systemd/system/$unit"; done',
        "if ls /usr/local/share/ca-certificates/*.crt >/dev/null 2>&1; then "
        'cp /usr/local/share/ca-certificates/*.crt "$1/usr/local/share/ca-certificates/"; '
        'chroot "$1" update-ca-certificates >/dev/null; fi',
    ]
    return [
        # mmdebstrap as root makes every mount of its namespace private, and systemd's credentials
        # then no longer reach the units of the machine: it gets a namespace of its own.
        "/usr/bin/unshare",
        "--mount",
        "/usr/bin/mmdebstrap",
        "--variant=minbase",
        f"--include={','.join(recipe.packages)}",
        '--aptopt=Apt::Install-Recommends "false"',
        *(f"--aptopt={option}" for option in apt_options()),
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        *(f"--customize-hook={hook}" for hook in hooks),
        SUITES[recipe.image],
        str(root),
    ]


def _write_metadata(recipe: Recipe, path: Path) -> None:
    architecture = {"x86_64": "x86_64", "aarch64": "aarch64"}[platform.machine()]
    text = json.dumps(
        {
            "architecture": architecture,
            "creation_date": int(time.time()),
            "properties": {"description": f"Hearth {recipe.image}", "os": "debian"},
        }
    ).encode()  # JSON is YAML
    with tarfile.open(path, "w") as archive:
        entry = tarfile.TarInfo("metadata.yaml")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))


def import_image(recipe: Recipe, folder: Path) -> None:
    """Build one image in a fresh folder and hand it to Incus under its alias."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".image-") as fresh:
        # apt fetches as a user of its own, which must be able to go in.
        Path(fresh).chmod(0o755)
        metadata, root = build(recipe, Path(fresh))
        # The command streams both files; pylxd would read half a gigabyte into memory.
        result = subprocess.run(  # noqa: S603  fixed words, no shell
            ["/usr/bin/incus", "image", "import", metadata, root, "--alias", recipe.alias],
            check=False,
            capture_output=True,
            text=True,
            timeout=BUILD_LIMIT_S,
            stdin=subprocess.DEVNULL,
        )
        if result.returncode:
            raise ImageError(f"image {recipe.alias}: incus: {result.stderr.strip()}")


def discard(folder: Path) -> None:
    """Remove what a killed build left behind."""
    shutil.rmtree(folder, ignore_errors=True)
