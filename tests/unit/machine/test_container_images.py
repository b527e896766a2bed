"""Images are handed over and saved whole, or not at all with one line that says why."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hearth.cli.app import app
from hearth.machine import container_images, images, oci
from hearth.machine.container_images import ContainerImageError, hand_over, write_built
from hearth.machine.images import ImageError
from hearth.machine.oci import Image, Store, tree_layer
from hearth.render.containers import ImageSpec, Start

START = Start(name="it", container="it", user="it", command=("/bin/it",), environment={}, health={})
SPEC = ImageSpec(
    repository="hearth-it",
    owner="it",
    accelerator="none",
    image="debian/13",
    packages=("python3",),
    root="/opt/hearth",
    programs={},
    starts=(START,),
    default=START,
)
Fake = Callable[[str], None]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """A function that puts a shell script in Docker's place."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def make(script: str) -> None:
        (folder / "docker").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "docker").chmod(0o755)

    return make


def made(store: Store, name: str = "hearth-it") -> Image:
    layer = store.make(name, tree_layer({f"/etc/{name}": (0o644, 0, b"x")}))
    return Image(f"{name}:0123456789ab", (layer,), oci.config("amd64", [layer], {}))


def test_an_image_that_an_engine_has_is_not_loaded_again(tmp_path: Path, engine: Fake) -> None:
    store = Store(tmp_path / "store")
    image, loaded = made(store), tmp_path / "loaded"
    engine(f"case $1 in image) echo sha256:{image.id};; load) cat >{loaded};; esac")
    assert not hand_over(store, image, "docker")
    assert not loaded.exists()


def test_another_image_of_that_name_is_replaced(tmp_path: Path, engine: Fake) -> None:
    # Such as one from an archive that was saved on a machine with another kind of processor.
    store = Store(tmp_path / "store")
    image, loaded = made(store), tmp_path / "loaded"
    engine(f"case $1 in image) echo sha256:{'0' * 64};; load) cat >{loaded};; esac")
    assert hand_over(store, image, "docker")
    with tarfile.open(loaded) as tar:
        assert json.load(tar.extractfile("manifest.json"))[0]["RepoTags"] == [*image.names]  # type: ignore[arg-type]


def test_an_engine_without_room_is_one_line(tmp_path: Path, engine: Fake) -> None:
    store = Store(tmp_path / "store")
    engine(
        "case $1 in image) exit 1;; load) cat >/dev/null; "
        "echo 'write /x/layer.tar: no space left on device' >&2; exit 1;; esac"
    )
    with pytest.raises(ContainerImageError) as caught:
        hand_over(store, made(store), "docker")
    assert str(caught.value) == (
        "hearth-it:0123456789ab: docker load: write /x/layer.tar: no space left on device "
        "(the disk is full: make room)"
    )


def test_a_processor_without_images_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(ContainerImageError, match=r"^no images for riscv64: only for x86_64, aar"):
        container_images.build(SPEC, Store(tmp_path), tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_a_mirror_that_cannot_be_reached_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "E: apt-get update failed: Could not connect to deb.debian.org:80"
    script = f"echo 'I: running apt-get update' >&2; echo '{line}' >&2; exit 1"
    monkeypatch.setattr(images, "_mmdebstrap", lambda *_: ["/bin/sh", "-c", script])
    store = Store(tmp_path)
    with pytest.raises(ImageError) as caught:
        container_images.build(SPEC, store, tmp_path / "programs")
    assert str(caught.value) == f"image debian/13: mmdebstrap: {line}"
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_missing_tools_are_one_line_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ContainerImageError) as caught:
        container_images.check_tools()
    assert str(caught.value) == (
        "images cannot be built without mmdebstrap and zstd: run `apt install mmdebstrap zstd`"
    )


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(container_images, "FOLDER", tmp_path / "store")
    return Store(tmp_path / "store")


def test_saved_images_lie_in_one_archive_with_their_lists_beside_it(
    tmp_path: Path, store: Store
) -> None:
    for name in ("hearth-it", "hearth-open-it"):
        write_built(store, made(store, name))
    archive = tmp_path / "images.tar"
    done = CliRunner().invoke(app, ["images", "save", str(archive)])
    assert done.exit_code == 0, done.output
    assert f"{archive.name}: 2 images for " in done.output.replace("\n", "")
    with tarfile.open(archive) as tar:
        held = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
    assert [one["RepoTags"][1] for one in held] == ["hearth-it:local", "hearth-open-it:local"]
    for name in ("hearth-it", "hearth-open-it"):
        listed = json.loads((tmp_path / f"images.tar.{name}.cdx.json").read_text())
        assert listed["metadata"]["component"]["name"] == name
    one = tmp_path / "one.tar"
    assert CliRunner().invoke(app, ["images", "save", str(one), "open_it"]).exit_code == 0
    with tarfile.open(one) as tar:
        [held] = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
    assert held["RepoTags"][0] == "hearth-open-it:0123456789ab"


def test_nothing_is_saved_of_what_was_not_built(tmp_path: Path, store: Store) -> None:
    archive = tmp_path / "images.tar"
    done = CliRunner().invoke(app, ["images", "save", str(archive)])
    assert isinstance(done.exception, oci.OciError)
    assert str(done.exception).endswith("no image was built here: run `hearth images build`")
    write_built(store, made(store))
    done = CliRunner().invoke(app, ["images", "save", str(archive), "kokorro"])
    assert done.exit_code != 0
    assert not archive.exists()
