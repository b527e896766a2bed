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

from hearth.catalogue.house import Service

SUITES = {"debian/12": "bookworm", "debian/13": "trixie", "debian/forky": "forky"}
# The version of `python3` in each image, for environments that are built outside of it.
PYTHONS = {"debian/12": "3.11", "debian/13": "3.13", "debian/forky": "3.14"}
AUTHORITIES = Path("/usr/local/share/ca-certificates")
_BASE_PACKAGES = (
    *("ca-certificates", "dbus", "iproute2", "libpam-systemd", "python3"),
    *("systemd", "systemd-sysv", "udev"),
)
# Of /usr/share.
_LEFT_OUT = ("doc", "man", "locale")
BUILD_LIMIT_S = 900
# Increase this when the recipe below changes in a way that its fields do not show.
RECIPE_VERSION = 3


class ImageError(RuntimeError):
    """An image could not be built; the text names it and the reason."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The contents of one image; equal recipes share one image."""

    image: str
    packages: tuple[str, ...]
    resolver: str
    authorities: str
    version: int = RECIPE_VERSION

    @property
    def alias(self) -> str:
        """Return the image's name in Incus, with a digest of the recipe."""
        text = json.dumps(asdict(self), sort_keys=True).encode()
        return f"hearth-{self.image.replace('/', '-')}-{hashlib.sha256(text).hexdigest()[:12]}"


def recipe_of(service: Service, resolver: str) -> Recipe:
    """Return the recipe of one service's image."""
    proxy = {"caddy"} if service.paths else set()
    packages = sorted({*_BASE_PACKAGES, *proxy, *service.packages})
    return Recipe(service.image, tuple(packages), resolver, _authorities())


def _authorities() -> str:
    """Return a digest of the certificates that the machine trusts; the image gets them, too."""
    digest = hashlib.sha256()
    for path in sorted(AUTHORITIES.glob("*.crt")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def apt_options() -> list[str]:
    """Return the machine's apt options for downloads (proxy, mirror rules), for its images."""
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
    """Build the image's root as a tar file; return (metadata, root), Incus' split format.

    Raises:
        ImageError: mmdebstrap failed or an image name is unknown.
    """
    if recipe.image not in SUITES:
        raise ImageError(f"unknown image {recipe.image}: write one of {', '.join(SUITES)}")
    root, metadata = folder / "root.tar", folder / "metadata.tar"
    # A killed build's leftovers go with the folder; /tmp is in memory on Debian 13.
    _run(_command(recipe, root), recipe.image, "mmdebstrap", TMPDIR=str(folder))
    _write_metadata(recipe, metadata)
    return metadata, root


def _run(argv: list[str], image: str, tool: str, **environment: str) -> None:
    try:
        done = subprocess.run(  # noqa: S603  fixed words and validated package names, no shell
            argv,
            check=False,
            capture_output=True,
            text=True,
            timeout=BUILD_LIMIT_S,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )
    except subprocess.TimeoutExpired:
        raise ImageError(f"image {image} was not built in {BUILD_LIMIT_S} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        last = (lines or done.stderr.strip().splitlines() or ["no output"])[-1]
        raise ImageError(f"image {image}: {tool}: {last}")


def _command(recipe: Recipe, root: Path) -> list[str]:
    # Without networkd, since Incus configures a routed NIC, and without Debian's Caddy unit, since
    # the sidecar proxy has its own. Instances trust the machine's own certificates (a proxy's).
    hooks = [
        # The machine's apt options are only for the build.
        'rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap"',
        'rm -f "$1/etc/resolv.conf" "$1/etc/hostname"',
        f'echo "nameserver {recipe.resolver}" > "$1/etc/resolv.conf"',
        # A minimal Debian 12 has none, so localhost would be looked up at the resolver.
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
        # As root, mmdebstrap makes all mounts private, which cuts the machine's units off from
        # systemd's credentials: it gets a mount namespace of its own.
        *("/usr/bin/unshare", "--mount"),
        *("/usr/bin/mmdebstrap", "--variant=minbase"),
        f"--include={','.join(recipe.packages)}",
        '--aptopt=Apt::Install-Recommends "false"',
        *(f"--aptopt={option}" for option in apt_options()),
        *(f"--dpkgopt=path-exclude=/usr/share/{left_out}/*" for left_out in _LEFT_OUT),
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
    """Build one image in a temporary folder and import it into Incus under its alias."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".image-") as fresh:
        # apt downloads as a user of its own, which needs access.
        Path(fresh).chmod(0o755)
        metadata, root = build(recipe, Path(fresh))
        # The command streams both files; pylxd would read half a gigabyte into memory.
        argv = ["/usr/bin/incus", "image", "import", str(metadata), str(root)]
        _run([*argv, "--alias", recipe.alias], recipe.alias, "incus")


def discard(folder: Path) -> None:
    """Remove the leftovers of a killed build."""
    shutil.rmtree(folder, ignore_errors=True)
