"""`hearth images`: build images of containers here, and save them for another machine."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from hearth.catalogue import House, derive
from hearth.cli import playbook
from hearth.cli.console import AsJson, err, known, show, show_or_print, table, waiting
from hearth.machine import container_images as images
from hearth.machine import oci
from hearth.machine.oci import OciError
from hearth.project import Project, current
from hearth.render.containers import ImageSpec, contained

app = typer.Typer(
    name="images",
    help="Build an image of each service for Docker and Podman, here and from the same roles.",
    no_args_is_help=True,
)
Names = Annotated[
    list[str] | None, typer.Argument(metavar="NAME", help="Services and parts; by default all.")
]
Engine = Annotated[
    str, typer.Option("--into", help="docker, podman or none; by default what is installed.")
]


@app.command("build")
def build_images(
    names: Names = None,
    into: Engine = "",
    cuda: Annotated[bool, typer.Option("--cuda", help="For an NVIDIA card.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Fetch Debian's packages again, with their fixes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Build images, and give them to Docker or Podman.

    Example: hearth images build kokoro
    """
    rows = build_all(current(), names or (), into, "cuda" if cuda else "none", fresh=fresh)
    columns = ("image", "size", "digest", "engines")
    shown = (
        (row["name"], f"{row['size'] / 1e6:.0f} MB", row["digest"][7:19], " ".join(row["engines"]))
        for row in rows
    )
    show_or_print(as_json, rows, table(columns, shown))


@app.command("save")
def save_images(
    archive: Annotated[Path, typer.Argument(help="The archive to write, such as images.tar.")],
    names: Names = None,
) -> None:
    """Write images that were built here into one archive, for a machine without internet.

    There, `docker load -i images.tar` or `podman load -i images.tar` reads it. The other machine
    must have the same kind of processor.

    Example: hearth images save images.tar
    """
    store = oci.Store(images.FOLDER)
    built = images.read_built(store)
    wanted = [f"hearth-{name.replace('_', '-')}" for name in names or ()] or [*built]
    if not built:
        raise OciError(f"{archive}: no image was built here: run `hearth images build`")
    for name in wanted:
        known("image", name, built)
    with waiting(f"Write {archive}"):
        oci.save(store, [built[name] for name in wanted], archive)
        for name in wanted:
            listed = store.folder / "images" / f"{name}{images.SBOM}"
            shutil.copyfile(listed, archive.with_name(f"{archive.name}.{listed.name}"))
    kind = images.architecture()
    show(f"{archive}: {len(wanted)} images for {kind}, {archive.stat().st_size / 1e6:.0f} MB")


@app.command("list")
def list_images(as_json: AsJson = False) -> None:
    """List the images that were built here.

    Example: hearth images list
    """
    rows = [_row(image, []) for image in images.read_built(oci.Store(images.FOLDER)).values()]
    shown = ((r["name"], f"{r['size'] / 1e6:.0f} MB", r["digest"]) for r in rows)
    show_or_print(as_json, rows, table(("image", "size", "digest"), shown))


def build_all(
    project: Project,
    names: list[str] | tuple[str, ...],
    into: str = "",
    accelerator: str = "none",
    *,
    fresh: bool = False,
) -> list[dict[str, Any]]:
    """Install the programs, build the images and hand them over; return a row for each."""
    engines = images.chosen_engines(into)
    house = contained(derive(project.catalogue(), project.vault.names()))
    specs = install(project, house, names, accelerator)
    return build_specs(best(specs, accelerator), engines, fresh=fresh)


def build_specs(
    specs: list[ImageSpec], engines: list[str], *, fresh: bool = False
) -> list[dict[str, Any]]:
    """Build images whose programs are installed, and hand them over; return a row for each."""
    store = oci.Store(images.FOLDER)
    built = []
    with waiting("Build the Debian systems of the images"):
        images.build_bases(specs, store, fresh=fresh)
    for spec in specs:
        with waiting(f"Build {spec.name}"):
            image = images.build(spec, store, images.IMAGE_PROGRAMS)
            images.write_built(store, image)
        for engine in engines:
            with waiting(f"Load {spec.name} into {engine}"):
                images.hand_over(store, image, engine)
        built.append(_row(image, engines))
    return built


def install(
    project: Project, house: House, names: list[str] | tuple[str, ...], accelerator: str
) -> list[ImageSpec]:
    """Run each role's own installation for images; return what they hold in each form.

    The house is one of containers; `accelerator` is none, cuda or vulkan.
    """
    for name in names:
        known("service", name, {**house.services, **house.parts})
    images.check_tools()
    with tempfile.TemporaryDirectory() as folder:
        given = {
            "containers_folder": folder,
            "containers_programs": str(images.IMAGE_PROGRAMS),
            "containers_install": True,
            "containers_accelerators": list(dict.fromkeys(("none", accelerator))),
        }
        more = ["--extra-vars", json.dumps(given)]
        if names:
            more += ["--limit", ",".join(f"container-{name}" for name in names)]
        playbook.run(project, err, tuple(more), name="images")
        return images.read_specs(Path(folder), house)


def best(specs: list[ImageSpec], accelerator: str) -> list[ImageSpec]:
    """Return one image of each owner: for the accelerator, or else without one."""
    found = {spec.owner: spec for spec in specs if spec.accelerator == "none"}
    found |= {spec.owner: spec for spec in specs if spec.accelerator == accelerator}
    return [*found.values()]


def _row(image: oci.Image, engines: list[str]) -> dict[str, Any]:
    size = sum(layer.size for layer in image.layers)
    return {"name": image.name, "digest": image.digest, "size": size, "engines": engines}
