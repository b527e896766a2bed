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
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from hearth.catalogue.house import Service
from hearth.machine.facts import memory_bytes
from hearth.progress import report

# An instance's own note of the image that it was made from.
IMAGE_KEY = "user.hearth.image"
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
FOLDER = Path("/var/lib/hearth/images")
_UNFINISHED = ".image-"
# With as much free memory the builds of a new house fit in it, and none waits for the disk.
IN_MEMORY_BYTES = 4 << 30
# The mount ends with its namespace, also after a kill. Where it is forbidden, the disk will do.
_IN_MEMORY = 'mount -t tmpfs -o mode=0755 image "$TMPDIR" 2>/dev/null; exec "$@"'
_UNDONE = (
    # The machine's apt options and the next line's option are only for the build.
    'rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap"',
    'sed -i /force-unsafe-io/d "$1/etc/dpkg/dpkg.cfg.d/99mmdebstrap"',
    'rm -f "$1/etc/resolv.conf" "$1/etc/hostname"',
)
# Increase this when the recipe below changes in a way that its fields do not show.
RECIPE_VERSION = 4


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


# Imports a recipe's image, given as (metadata, root), into an engine.
Taker = Callable[[Recipe, Path, Path], None]


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
    root, metadata, work = folder / "root.tar", folder / "metadata.tar", folder / "work"
    # A killed build's leftovers go with the folder; it need not fit in memory, where /tmp may be.
    work.mkdir()
    work.chmod(0o755)
    _run(_command(recipe, root), recipe.image, "mmdebstrap", TMPDIR=str(work))
    _write_metadata(recipe, metadata)
    return metadata, root


def available_bytes() -> int:
    """Return the machine's available memory, as the kernel estimates it."""
    return memory_bytes(Path("/"), "MemAvailable")


def _run(argv: list[str], image: str, tool: str, **environment: str) -> None:
    lines: list[str] = []
    with subprocess.Popen(  # noqa: S603  fixed words and validated package names, no shell
        argv,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
    ) as process:
        late = threading.Timer(BUILD_LIMIT_S, process.kill)
        late.start()
        report(f"image {image}", tool)
        for line in process.stderr or ():
            lines.append(line.strip())
            # mmdebstrap's own steps; the packages' output has other starts.
            if line.startswith("I: "):
                report(f"image {image}", line[3:].strip())
        process.wait()
        in_time = late.is_alive()
        late.cancel()
    if not in_time:
        raise ImageError(f"image {image} was not built in {BUILD_LIMIT_S} s")
    if process.returncode:
        errors = [line for line in lines if line.startswith("E:")]
        last = (errors or [line for line in lines if line] or ["no output"])[-1]
        raise ImageError(f"image {image}: {tool}: {last}")
    report(f"image {image}", "")


def _command(recipe: Recipe, root: Path) -> list[str]:
    # Without networkd, since Incus configures a routed NIC, and without the units of the packages,
    # since roles bring their own. Instances trust the machine's own certificates (a proxy's).
    own = [name for name in recipe.packages if name not in _BASE_PACKAGES]
    hooks = [
        *_UNDONE,
        f'echo "nameserver {recipe.resolver}" > "$1/etc/resolv.conf"',
        # A minimal Debian 12 has none, so localhost would be looked up at the resolver.
        '[ -e "$1/etc/hosts" ] || echo "127.0.0.1 localhost" > "$1/etc/hosts"',
        'mkdir -p "$1/opt/hearth"',
        "for unit in systemd-networkd.service systemd-networkd.socket systemd-resolved.service "
        # Nobody logs in, and Incus makes the devices.
        "console-getty.service systemd-logind.service systemd-udevd.service "
        "systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-udev-trigger.service "
        f"apt-daily.timer apt-daily-upgrade.timer {_units_of(own) if own else ''}; do "
        'ln -sf /dev/null "$1/etc/systemd/system/$unit"; done',
        "if ls /usr/local/share/ca-certificates/*.crt >/dev/null 2>&1; then "
        'cp /usr/local/share/ca-certificates/*.crt "$1/usr/local/share/ca-certificates/"; '
        'chroot "$1" update-ca-certificates >/dev/null; fi',
    ]
    return _mmdebstrap(recipe.image, recipe.packages, hooks, root)


def _mmdebstrap(
    image: str, packages: Iterable[str], hooks: Iterable[str], root: Path, *more: str
) -> list[str]:
    """Return the command that writes a small Debian with these packages as a tar."""
    return [
        # As root, mmdebstrap makes all mounts private, which cuts the machine's units off from
        # systemd's credentials: it gets a mount namespace of its own.
        *("/usr/bin/unshare", "--mount"),
        *(("/bin/sh", "-c", _IN_MEMORY, "sh") if available_bytes() > IN_MEMORY_BYTES else ()),
        *("/usr/bin/mmdebstrap", "--variant=minbase", *more),
        f"--include={','.join(packages)}",
        '--aptopt=Apt::Install-Recommends "false"',
        *(f"--aptopt={option}" for option in apt_options()),
        # A build that a power cut interrupts is thrown away, so dpkg need not wait for the disk.
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude=/usr/share/{left_out}/*" for left_out in _LEFT_OUT),
        *(f"--customize-hook={hook}" for hook in hooks),
        SUITES[image],
        str(root),
    ]


def build_plain(image: str, packages: Iterable[str], folder: Path, epoch: int) -> Path:
    """Build the root of a container, which starts one program and no systemd, as a tar file.

    The same packages give the same bytes: no time is later than `epoch`, in seconds of Unix.

    Raises:
        ImageError: as `build`.
    """
    if image not in SUITES:
        raise ImageError(f"unknown image {image}: write one of {', '.join(SUITES)}")
    root, work = folder / "plain.tar", folder / "work"
    work.mkdir()
    work.chmod(0o755)
    hooks = (
        *_UNDONE,
        'mkdir -p "$1/opt/hearth"',
        # No program may gain rights, so no file offers any.
        'find "$1" -xdev -perm /6000 -type f -exec chmod ug-s {} +',
        # Logs, and caches that hold times or the order of a hash table.
        'cd "$1" && rm -rf var/log/* var/cache/* var/lib/dpkg/*-old etc/*- etc/machine-id',
    )
    # The runtime makes the devices.
    command = _mmdebstrap(image, packages, hooks, root, "--skip=output/dev")
    _run(command, image, "mmdebstrap", TMPDIR=str(work), SOURCE_DATE_EPOCH=str(epoch))
    return root


def _units_of(packages: list[str]) -> str:
    """Return the shell's words for the names of the services that these packages bring."""
    names = r"s:^.*/lib/systemd/system/\([^/@]*[.]service\)$:\1:p"
    return f"""$(chroot "$1" dpkg-query --listfiles {" ".join(packages)} | sed -n '{names}')"""


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


def make_image(recipe: Recipe, folder: Path, takers: Iterable[Taker]) -> None:
    """Build one image in a temporary folder and hand it to each of the engines that take it."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=_UNFINISHED) as fresh:
        # apt downloads as a user of its own, which needs access.
        Path(fresh).chmod(0o755)
        metadata, root = build(recipe, Path(fresh))
        for take in takers:
            take(recipe, metadata, root)


def into_incus(recipe: Recipe, metadata: Path, root: Path) -> None:
    """Import a built image into Incus under its alias."""
    # The command streams both files; pylxd would read half a gigabyte into memory.
    argv = ["/usr/bin/incus", "image", "import", str(metadata), str(root)]
    _run([*argv, "--alias", recipe.alias], recipe.alias, "incus")


def leftovers(folder: Path | None = None) -> list[Path]:
    """Return the folders of builds that are under way, or that were killed."""
    return sorted((folder or FOLDER).glob(f"{_UNFINISHED}*"))


def discard(folder: Path) -> None:
    """Remove the leftovers of a killed build."""
    shutil.rmtree(folder, ignore_errors=True)
