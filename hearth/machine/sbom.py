"""List what is in an image in CycloneDX form: Debian and Python packages, and other programs."""

import re
import tarfile
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from email.parser import HeaderParser

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from hearth.machine.oci import EPOCH, Image, Layer, Store

_DPKG = "./var/lib/dpkg/status"
_METADATA = re.compile(r"[^/]+\.dist-info/METADATA")


def bill_of_materials(store: Store, image: Image) -> str:
    """Return the list of an image as JSON; the same image always gives the same text."""
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_OID, image.digest))
    bom.metadata.timestamp = datetime.fromtimestamp(EPOCH, UTC)
    name, _, version = image.name.partition(":")
    bom.metadata.component = Component(
        name=name,
        version=version,
        type=ComponentType.CONTAINER,
        bom_ref="image",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=image.digest.removeprefix("sha256:"))],
    )
    for layer in image.layers:
        for component in _components(store, layer):
            bom.components.add(component)
    bom.register_dependency(bom.metadata.component, bom.components)
    made = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1)
    return f"{made}\n"


def _components(store: Store, layer: Layer) -> Iterator[Component]:
    """Yield the packages in a layer, or the layer itself where it has none, such as a model."""
    found = 0
    with tarfile.open(store.blob(layer.sha256)) as tar:
        for entry in tar:
            wanted = entry.name == _DPKG or _METADATA.search(entry.name)
            stream = tar.extractfile(entry) if wanted else None
            if stream is None:
                continue
            text = stream.read().decode(errors="replace")
            for component in _debian(text) if entry.name == _DPKG else _python(text):
                found += 1
                yield component
    program = layer.made_of.split()[0]
    if not found and program.startswith("/"):
        yield Component(
            name=program.removesuffix("/current").rpartition("/")[2],
            version=layer.made_of.split()[-1],
            type=ComponentType.DATA,
            bom_ref=program,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=layer.sha256)],
        )


def _debian(status: str) -> Iterator[Component]:
    for paragraph in status.strip().split("\n\n"):
        fields = HeaderParser().parsestr(paragraph)
        if "installed" in (fields["Status"] or ""):
            where = {"arch": fields["Architecture"]}
            url = PackageURL("deb", "debian", fields["Package"], fields["Version"], where)
            yield _library(fields["Package"], fields["Version"], url)


def _python(metadata: str) -> Iterator[Component]:
    fields = HeaderParser().parsestr(metadata)
    url = PackageURL("pypi", None, fields["Name"], fields["Version"])
    yield _library(fields["Name"], fields["Version"], url)


def _library(name: str, version: str, url: PackageURL) -> Component:
    return Component(name=name, version=version, purl=url, bom_ref=url.to_string())
