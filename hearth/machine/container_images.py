"""Build the images of containers from what the roles declare: Debian, program folders, one start.

The playbook images.yml runs each role's own install step into a folder of images,
and writes what the role starts as data. Nothing here knows how a program is installed.
"""

import contextlib
import json
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hearth.catalogue.house import House, Part, Service
from hearth.files import write_atomic
from hearth.machine import oci
from hearth.machine.compose import explained
from hearth.machine.images import build_plain
from hearth.paths import PROGRAMS
from hearth.progress import report
from hearth.render.containers import (
    BASE_PACKAGES,
    PROBE,
    RECIPE_VERSION,
    UID,
    ImageSpec,
    health_command,
    start_of,
)
from hearth.render.programs import Program
from hearth.render.speech import PROGRAMS as INSIDE
from hearth.sources.programs import MANIFEST

FOLDER = Path("/var/lib/hearth/containers")
# The programs of images; those of a house are its own.
IMAGE_PROGRAMS = FOLDER / "programs"
# The list of what is in an image, beside it.
SBOM = ".cdx.json"
_RUN = "run.json"
_ENGINES = ("docker", "podman")
# Each is a package of that name; a service's archive may need the second one.
_TOOLS = ("mmdebstrap", "zstd")
# Exit code 0 if an answer from URL contains TEXT within SECONDS.
_PROBE = """\
#!/usr/bin/python3 -I
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
answer = opener.open(sys.argv[1], timeout=float(sys.argv[3])).read(65536)
sys.exit(sys.argv[2] not in answer.decode(errors="replace"))
"""


class ContainerImageError(Exception):
    """One line for a person: which image, what is wrong, what to do."""


def describe(folder: Path, name: str, kind: str, digest: str) -> None:
    """Write that an image holds the program `name`, with a digest of all that decides it."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"kind": kind, "digest": digest})
    write_atomic(folder / f"{name}.program.json", text.encode())


def describe_programs(folder: Path, programs: Sequence[Program]) -> None:
    """Write the start data of a role's programs."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps([asdict(program) for program in programs], indent=1)
    write_atomic(folder / _RUN, text.encode())


def read_specs(folder: Path, house: House) -> list[ImageSpec]:
    """Return the images that the playbook described in `folder`, for a house of containers."""
    owners: dict[str, Service | Part] = {**house.services, **house.parts}
    there = [path for path in sorted(folder.iterdir()) if path.name in owners]
    return [spec for path in there for spec in _read_owner(path, owners[path.name])]


def _read_owner(folder: Path, owner: Service | Part) -> list[ImageSpec]:
    """Return the images of one service or part: one for each accelerator that it may have."""
    name = owner.instance if isinstance(owner, Service) else owner.name
    found: list[ImageSpec] = []
    # None comes first: another accelerator has an image of its own only if that holds other files.
    for accelerator in ("none", "vulkan", "cuda"):
        if not (folder / accelerator / _RUN).exists():
            continue
        spec = _read_spec(folder / accelerator, owner, f"hearth-{name}")
        if found and spec.programs == found[0].programs:
            spec = replace(spec, default=found[0].default)
        elif found:
            spec = replace(spec, repository=f"hearth-{name}-{accelerator}")
        found.append(spec)
    return found


def _read_spec(folder: Path, owner: Service | Part, repository: str) -> ImageSpec:
    programs = [Program(**each) for each in json.loads((folder / _RUN).read_text("utf-8"))]
    if isinstance(owner, Service):
        stored = [volume.path for volume in owner.volumes]
        ports, more = (owner.port, *owner.publish_tcp), ("caddy",) if owner.paths else ()
    else:
        # What a part keeps has no volume of its own on the machine.
        stored, ports, more = [], (owner.port,), ()
    starts = tuple(start_of(program, owner, stored=stored) for program in programs)
    return ImageSpec(
        repository=repository,
        owner=owner.name,
        accelerator=folder.name,
        image=owner.image if isinstance(owner, Service) else "debian/13",
        packages=tuple(sorted({*BASE_PACKAGES, *owner.packages, *more})),
        root=INSIDE if isinstance(owner, Service) else str(PROGRAMS),
        programs={
            path.name.removesuffix(".program.json"): json.loads(path.read_text("utf-8"))["digest"]
            for path in sorted(folder.glob("*.program.json"))
        },
        starts=starts,
        default=starts[0],
        ports=tuple(port for port in ports if port),
    )


def build_bases(specs: Iterable[ImageSpec], store: oci.Store, *, fresh: bool = False) -> None:
    """Build the layers with Debian's packages side by side, each once; with `fresh` all anew.

    Raises:
        ImageError: mmdebstrap failed.
        OciError: the disk is full.
    """
    distinct = {_base_key(spec): spec for spec in specs}.values()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(lambda spec: _base(spec, store, fresh), distinct):
            pass


def build(spec: ImageSpec, store: oci.Store, programs: Path) -> oci.Image:
    """Build one image from the programs that its role has installed in `programs`.

    Layers that the store has are used again.

    Raises:
        ContainerImageError: a program is missing, or the processor is not known.
        ImageError: mmdebstrap failed.
        OciError: the disk is full.
    """
    processor = architecture()
    base = _base(spec, store, fresh=False)
    layers = [base]
    for name in spec.programs:
        layers.append(_program(spec, store, programs, name))
    layers.append(_users(spec, store, base))
    return oci.Image(spec.name, tuple(layers), oci.config(processor, layers, _run(spec)))


def architecture() -> str:
    """Return this machine's processor as images name it, such as amd64.

    Raises:
        ContainerImageError: no image can be built for it.
    """
    machine = platform.machine()
    if machine not in oci.ARCHITECTURES:
        known = ", ".join(oci.ARCHITECTURES)
        raise ContainerImageError(f"no images for {machine}: only for {known}")
    return oci.ARCHITECTURES[machine]


def _base_key(spec: ImageSpec) -> str:
    return f"{spec.image} {' '.join(spec.packages)}"


def _base(spec: ImageSpec, store: oci.Store, fresh: bool) -> oci.Layer:
    key = _base_key(spec)
    if (layer := store.known(key)) and not fresh:
        return layer
    store.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=store.folder, prefix=".base-") as folder:
        # apt downloads as a user of its own, which needs access.
        Path(folder).chmod(0o755)
        root = build_plain(spec.image, spec.packages, Path(folder), oci.EPOCH)
        return store.make(key, oci.file_layer(root), again=fresh)


def _program(spec: ImageSpec, store: oci.Store, programs: Path, name: str) -> oci.Layer:
    current = programs / name / "current"
    if not current.is_dir():
        raise ContainerImageError(
            f"{spec.repository}: {current} is missing: run `hearth images build {spec.owner}`"
        )
    at = f"{spec.root}/{name}/current"
    report(spec.repository, f"packing {name}")
    key = f"{at} {current.resolve().name}"
    return store.make(key, oci.folder_layer(current.resolve(), at, frozenset({MANIFEST})))


def _users(spec: ImageSpec, store: oci.Store, base: oci.Layer) -> oci.Layer:
    """Return the layer with the users of the programs, and the folders that they own."""
    entries: dict[str, tuple[int, int, bytes | None]] = {}
    with tarfile.open(store.blob(base.sha256)) as tar:
        for name in ("passwd", "group"):
            stream = tar.extractfile(f"./etc/{name}")
            lines = stream.read().decode().splitlines() if stream else []
            kept = [line for line in lines if line.partition(":")[0] not in spec.users]
            more = [
                f"{u}:x:{UID}:{UID}::/nonexistent:/usr/sbin/nologin" if name == "passwd"
                else f"{u}:x:{UID}:"
                for u in spec.users
            ]  # fmt: skip
            text = "\n".join([*kept, *more, ""]).encode()
            entries[f"/etc/{name}"] = (0o644, 0, text)
    entries[PROBE] = (0o755, 0, _PROBE.encode())
    # A new volume takes the owner and the mode of the folder that it covers.
    entries |= dict.fromkeys(spec.writable, (0o750, UID, None))
    key = f"users {RECIPE_VERSION} {base.sha256} {' '.join((*spec.users, *spec.writable))}"
    return store.make(key, oci.tree_layer(entries))


def _run(spec: ImageSpec) -> dict[str, Any]:
    first = spec.default
    run: dict[str, Any] = {
        "User": f"{UID}:{UID}",
        "Cmd": list(first.command),
        "Env": [f"{key}={value}" for key, value in sorted(first.environment.items())],
        "WorkingDir": "/",
        "ExposedPorts": {f"{port}/tcp": {} for port in spec.ports},
        "Volumes": {path: {} for path in first.writable},
        "Labels": {
            "org.opencontainers.image.title": spec.repository,
            "io.hearth.recipe": spec.recipe,
        },
    }
    if first.health:
        second = 1_000_000_000
        run["Healthcheck"] = {
            "Test": ["CMD-SHELL", health_command(first.health)],
            "Interval": 10 * second,
            "Timeout": int((first.health["within_s"] + 2) * second),
            "StartPeriod": int(first.health["ready_s"] * second),
            "Retries": 3,
        }
    return run


def write_built(store: oci.Store, image: oci.Image) -> None:
    """Note an image in the store, so that it can be saved later, with the list of its contents."""
    folder = store.folder / "images"
    folder.mkdir(parents=True, exist_ok=True)
    layers = [asdict(layer) for layer in image.layers]
    text = json.dumps({"name": image.name, "layers": layers, "config": image.config.decode()})
    name = image.name.partition(":")[0]
    # Imported late: it is slow, and only who builds images needs it.
    from hearth.machine.sbom import bill_of_materials

    write_atomic(folder / f"{name}{SBOM}", bill_of_materials(store, image).encode())
    write_atomic(folder / f"{name}.json", text.encode())


def read_built(store: oci.Store) -> dict[str, oci.Image]:
    """Return the images that the store holds, by their names without a tag."""
    found = {}
    for path in sorted((store.folder / "images").glob("*.json")):
        if path.name.endswith(SBOM):
            continue
        noted = json.loads(path.read_text(encoding="utf-8"))
        layers = tuple(oci.Layer(**layer) for layer in noted["layers"])
        found[path.stem] = oci.Image(noted["name"], layers, noted["config"].encode())
    return found


def check_tools() -> None:
    """Check that this machine has the programs that build images, before anything is fetched.

    Raises:
        ContainerImageError: one is missing.
    """
    if missing := [tool for tool in _TOOLS if not shutil.which(tool)]:
        raise ContainerImageError(
            f"images cannot be built without {' and '.join(missing)}: "
            f"run `apt install {' '.join(missing)}`"
        )


def chosen_engines(wanted: str) -> list[str]:
    """Return the engines that get images: the wanted one, or else those that this machine has.

    Raises:
        ContainerImageError: it is not known or not here.
    """
    there = [engine for engine in _ENGINES if shutil.which(engine)]
    if wanted in ("", "none"):
        return there if not wanted else []
    if wanted not in _ENGINES:
        raise ContainerImageError(f"--into {wanted}: write docker, podman or none")
    if wanted not in there:
        raise ContainerImageError(f"--into {wanted}: {wanted} is not installed on this machine")
    return [wanted]


def hand_over(store: oci.Store, image: oci.Image, engine: str) -> bool:
    """Give an image to docker or podman; return whether it did not have it yet.

    Raises:
        ContainerImageError: the engine does not answer, or has no room.
    """
    inspect = [engine, "image", "inspect", "--format", "{{.Id}}", image.name]
    done = subprocess.run(  # noqa: S603 - fixed words and a name of ours
        inspect, capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode == 0 and done.stdout.strip().removeprefix("sha256:") == image.id:
        return False
    report(image.name, f"{engine} loads it")
    with subprocess.Popen(  # noqa: S603 - fixed words
        [engine, "load"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        given, said = process.stdin, process.stderr
        # An engine that stops reading says why when it ends.
        with contextlib.suppress(BrokenPipeError):
            if given:
                with given:
                    oci.write(store, [image], given)
        errors = said.read().decode(errors="replace").strip().splitlines() if said else []
        code = process.wait()
    if code:
        reason = errors[-1] if errors else f"exit code {code}"
        raise ContainerImageError(f"{image.name}: {engine} load: {explained(reason)}")
    return True
