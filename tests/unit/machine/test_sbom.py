"""The list beside an image names each package that is in it, in a form that tools read."""

from __future__ import annotations

import importlib.metadata
import io
import json
import shutil
import sysconfig
import tarfile
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from hearth.machine import oci
from hearth.machine.container_images import SBOM, read_built, write_built
from hearth.machine.oci import Image, Store, file_layer, folder_layer, tree_layer
from hearth.machine.sbom import bill_of_materials

STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.41-12

Package: removed
Status: deinstall ok config-files
Architecture: amd64
Version: 1.0

Package: tzdata
Status: install ok installed
Architecture: all
Version: 2025b-4+deb13u1
Description: time zones
 A text of several lines.
"""
ROOT = "debian/13 python3"
PROGRAM = "/opt/hearth/it/current 4f0a"
MODEL = "/opt/hearth/it_model/current 77ab"


def environment(folder: Path) -> Path:
    """A program's environment: the notes of some thirty packages that are installed here."""
    site = Path(sysconfig.get_paths()["purelib"])
    for path in sorted(site.glob("*.dist-info"))[:30]:
        shutil.copytree(path, folder / path.name)
    (folder / "it.py").write_text("")
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Image, Path]:
    tmp_path = tmp_path_factory.mktemp("sbom")
    store, folder = Store(tmp_path / "store"), environment(tmp_path / "it")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights.onnx").write_bytes(b"weights")
    base = Store(tmp_path / "other").make(
        "root", tree_layer({"/var/lib/dpkg/status": (0o644, 0, STATUS.encode())})
    )
    # As mmdebstrap names what it packs.
    tar = (tmp_path / "other/blobs" / base.sha256).read_bytes()
    (tmp_path / "root.tar").write_bytes(_dotted(tar))
    layers = [
        store.make(ROOT, file_layer(tmp_path / "root.tar")),
        store.make(PROGRAM, folder_layer(folder, "/opt/hearth/it/current", frozenset())),
        store.make(
            MODEL, folder_layer(tmp_path / "model", "/opt/hearth/it_model/current", frozenset())
        ),
    ]
    image = Image("hearth-it:0123456789ab", tuple(layers), oci.config("amd64", layers, {}))
    return store, image, folder


def _dotted(tar: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(tar)) as old, tarfile.open(fileobj=out, mode="w") as new:
        for entry in old:
            entry.name = f"./{entry.name}"
            new.addfile(entry, old.extractfile(entry) if entry.isfile() else None)
    return out.getvalue()


def listed(built: tuple[Store, Image, Path]) -> dict[str, Any]:
    return dict(json.loads(bill_of_materials(*built[:2])))


def test_it_is_valid_by_the_schema_of_cyclonedx(built: tuple[Store, Image, Path]) -> None:
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    text = bill_of_materials(*built[:2])
    assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace('"components"', '"parts"')) is not None


def test_every_package_of_the_environment_is_in_it(built: tuple[Store, Image, Path]) -> None:
    wanted = {
        (found.name, found.version)
        for found in importlib.metadata.distributions(path=[str(built[2])])
    }
    assert len(wanted) >= 30
    found = {
        (one["name"], one["version"])
        for one in listed(built)["components"]
        if one.get("purl", "").startswith("pkg:pypi/")
    }
    assert found == wanted


def test_debian_packages_that_are_installed_are_in_it(built: tuple[Store, Image, Path]) -> None:
    urls = {one.get("purl") for one in listed(built)["components"]}
    assert {url for url in urls if url and url.startswith("pkg:deb/")} == {
        "pkg:deb/debian/libc6@2.41-12?arch=amd64",
        "pkg:deb/debian/tzdata@2025b-4%2Bdeb13u1?arch=all",
    }


def test_weights_are_in_it_with_their_digest(built: tuple[Store, Image, Path]) -> None:
    _, image, _ = built
    [model] = [one for one in listed(built)["components"] if one["type"] == "data"]
    assert (model["name"], model["version"]) == ("it_model", "77ab")
    assert model["hashes"] == [{"alg": "SHA-256", "content": image.layers[2].sha256}]
    about = listed(built)["metadata"]["component"]
    assert about["hashes"][0]["content"] == image.digest.removeprefix("sha256:")


def test_it_lies_beside_the_image_and_is_the_same_each_time(
    built: tuple[Store, Image, Path],
) -> None:
    store, image, _ = built
    write_built(store, image)
    path = store.folder / "images" / f"hearth-it{SBOM}"
    first = path.read_bytes()
    write_built(store, image)
    assert path.read_bytes() == first
    assert read_built(store) == {"hearth-it": image}
