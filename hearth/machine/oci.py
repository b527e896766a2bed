"""Write container images from folders and archives: the same contents always give the same bytes.

A store is a folder of layers, each a plain tar with sorted names and one fixed time. Layers are not
compressed, since what compresses differs between versions. An image is a list of layers and a
configuration; `save` writes images in the one form that `docker load` and `podman load` both read.
"""

import contextlib
import hashlib
import io
import json
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from hearth.files import sync_folder, write_atomic

# The time of every file in a layer: 2025-01-01. Zip files, which a program may write of itself,
# know no time before 1980.
EPOCH = 1_735_689_600
_CHUNK = 1 << 20
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
_TITLE = "org.opencontainers.image.ref.name"
_CONTAINERD = "io.containerd.image.name"
# Every image has this tag as well, for people who start one by hand.
LOCAL = "local"
# As image configurations name what `platform.machine` returns.
ARCHITECTURES: Mapping[str, str] = {"x86_64": "amd64", "aarch64": "arm64"}


class OciError(Exception):
    """One line for a person: which image or layer, what is wrong, what to do."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of a store: the sha256 of its tar, its size in bytes, and where it came from."""

    sha256: str
    size: int
    made_of: str


@dataclass(frozen=True, slots=True)
class Image:
    """A finished image: its name with a tag, its layers and the bytes of its configuration."""

    name: str
    layers: tuple[Layer, ...]
    config: bytes

    @property
    def names(self) -> tuple[str, str]:
        """Its name with the digest of its recipe, and the one for people."""
        return self.name, f"{self.name.partition(':')[0]}:{LOCAL}"

    @property
    def id(self) -> str:
        """The image's ID in Docker and Podman: the sha256 of its configuration."""
        return hashlib.sha256(self.config).hexdigest()

    @property
    def manifest(self) -> bytes:
        """The image's manifest, whose sha256 is the image's digest."""
        config = _descriptor(_CONFIG, self.id, len(self.config))
        layers = [_descriptor(_LAYER, layer.sha256, layer.size) for layer in self.layers]
        return _json({"schemaVersion": 2, "mediaType": _MANIFEST, "config": config} | {
            "layers": layers
        })  # fmt: skip

    @property
    def digest(self) -> str:
        """The image's digest: `sha256:` and that of its manifest."""
        return f"sha256:{hashlib.sha256(self.manifest).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Store:
    """A folder with layers by their digests, and a note of what each was made from."""

    folder: Path

    def known(self, key: str) -> Layer | None:
        """Return the layer that was made for this key, if it is still here."""
        try:
            layer = Layer(**json.loads(self._note(key).read_text(encoding="utf-8")))
            whole = self.blob(layer.sha256).stat().st_size == layer.size
        except (OSError, ValueError, TypeError):
            return None
        return layer if whole else None

    def make(self, key: str, fill: Callable[[IO[bytes]], None], *, again: bool = False) -> Layer:
        """Return the layer of this key, written by `fill` if the store does not have it."""
        if (layer := self.known(key)) and not again:
            return layer
        blobs = self.folder / "blobs"
        blobs.mkdir(parents=True, exist_ok=True)
        handle, fresh = tempfile.mkstemp(prefix=".new-", dir=blobs)
        try:
            with os.fdopen(handle, "wb") as stream:
                hashed = _Hashed(stream)
                fill(hashed)  # type: ignore[arg-type]  # it has what tarfile writes with
                stream.flush()
                os.fsync(stream.fileno())
            layer = Layer(hashed.sha256.hexdigest(), hashed.size, key)
            Path(fresh).replace(self.blob(layer.sha256))
            sync_folder(blobs)
        except OSError as error:
            raise OciError(f"{blobs}: cannot write a layer: {error.strerror}: make room") from None
        finally:
            Path(fresh).unlink(missing_ok=True)
        write_atomic(self._note(key), _json(asdict(layer)))
        return layer

    def blob(self, sha256: str) -> Path:
        """Return where the layer with this digest is."""
        return self.folder / "blobs" / sha256

    def prune(self, kept: Iterable[Layer]) -> int:
        """Remove every layer that is not kept; return the bytes that this freed."""
        names, freed = {layer.sha256 for layer in kept}, 0
        for path in (self.folder / "blobs").glob("*"):
            if path.name not in names:
                freed += path.stat().st_size
                path.unlink()
        for note in (self.folder / "layers").glob("*.json"):
            if json.loads(note.read_text(encoding="utf-8"))["sha256"] not in names:
                note.unlink()
        return freed

    def _note(self, key: str) -> Path:
        notes = self.folder / "layers"
        notes.mkdir(parents=True, exist_ok=True)
        return notes / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


class _Hashed:
    """A file to write to, which hashes and counts what passes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.sha256, self.size = stream, hashlib.sha256(), 0

    def write(self, data: bytes) -> int:
        """Pass it on."""
        self.sha256.update(data)
        self.size += len(data)
        return self.stream.write(data)


def folder_layer(folder: Path, at: str, skip: frozenset[str]) -> Callable[[IO[bytes]], None]:
    """Return what writes a folder as a layer that has its contents at the absolute path `at`.

    Everything belongs to root there. `skip` are paths in the folder that are left out.
    """

    def fill(stream: IO[bytes]) -> None:
        with _tar(stream) as archive:
            parts = at.strip("/").split("/")
            for depth in range(1, len(parts) + 1):
                archive.addfile(_entry("/".join(parts[:depth]), tarfile.DIRTYPE, 0o755))
            for path, info in _walk(folder):
                inside = path[len(str(folder)) + 1 :]
                if inside not in skip:
                    _add(archive, path, info, f"{at.strip('/')}/{inside}")

    return fill


def tree_layer(entries: Mapping[str, tuple[int, int, bytes | None]]) -> Callable[[IO[bytes]], None]:
    """Return what writes files and folders: absolute path to mode, owner and content.

    A folder has no content. The owner is the number of both user and group.
    """

    def fill(stream: IO[bytes]) -> None:
        with _tar(stream) as archive:
            for path, (mode, owner, content) in sorted(entries.items()):
                kind = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
                entry = _entry(path.strip("/"), kind, mode, owner)
                entry.size = len(content or b"")
                archive.addfile(entry, io.BytesIO(content or b""))

    return fill


def file_layer(path: Path) -> Callable[[IO[bytes]], None]:
    """Return what writes an existing tar as a layer, unchanged."""

    def fill(stream: IO[bytes]) -> None:
        with path.open("rb") as source:
            shutil.copyfileobj(source, stream, _CHUNK)

    return fill


def _walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every path below `folder` in order, parents first, links not followed."""
    for here, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted((*folders, *files)):
            path = os.path.join(here, name)
            yield path, os.lstat(path)


def _add(archive: tarfile.TarFile, path: str, info: os.stat_result, name: str) -> None:
    if stat.S_ISLNK(info.st_mode):
        entry = _entry(name, tarfile.SYMTYPE, 0o777)
        entry.linkname = os.readlink(path)
        archive.addfile(entry)
    elif stat.S_ISDIR(info.st_mode):
        archive.addfile(_entry(name, tarfile.DIRTYPE, stat.S_IMODE(info.st_mode)))
    else:
        entry = _entry(name, tarfile.REGTYPE, stat.S_IMODE(info.st_mode))
        entry.size = info.st_size
        with open(path, "rb") as stream:
            archive.addfile(entry, stream)


def _tar(stream: IO[bytes]) -> tarfile.TarFile:
    # GNU's form has no headers that depend on the time or on the process.
    return tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT)


def _entry(name: str, kind: bytes, mode: int, owner: int = 0) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.mtime = kind, mode, EPOCH
    entry.uid = entry.gid = owner
    return entry


def config(architecture: str, layers: Sequence[Layer], run: Mapping[str, Any]) -> bytes:
    """Return the configuration of an image; `run` is Docker's `config`, such as `Cmd`."""
    created = "2025-01-01T00:00:00Z"
    return _json(
        {
            "architecture": architecture,
            "os": "linux",
            "created": created,
            "config": dict(run),
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{one.sha256}" for one in layers]},
            "history": [{"created": created, "created_by": one.made_of} for one in layers],
        }
    )


def save(store: Store, images: Sequence[Image], archive: Path) -> None:
    """Write images as one archive, whole or not at all; each shared layer is in it once.

    Raises:
        OciError: the disk is full, or a layer is not in the store.
    """
    fresh = archive.with_name(f".{archive.name}.new")
    try:
        with fresh.open("wb") as stream:
            write(store, images, stream)
        fresh.replace(archive)
    except FileNotFoundError as error:
        raise OciError(f"{error.filename}: this layer is gone: build the image again") from None
    except OSError as error:
        raise OciError(f"{archive}: cannot write it: {error.strerror}: make room") from None
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)


def write(store: Store, images: Sequence[Image], stream: IO[bytes]) -> None:
    """Write images as one archive to a stream, such as the input of `docker load`."""
    with _tar(stream) as tar:
        _write_archive(store, images, tar)


def _write_archive(store: Store, images: Sequence[Image], tar: tarfile.TarFile) -> None:
    texts: dict[str, bytes] = {}
    for image in images:
        for text in (image.config, image.manifest):
            texts[f"blobs/sha256/{hashlib.sha256(text).hexdigest()}"] = text
    layers = {layer.sha256: layer for image in images for layer in image.layers}
    for folder in ("blobs", "blobs/sha256"):
        tar.addfile(_entry(folder, tarfile.DIRTYPE, 0o755))
    for sha256, layer in sorted(layers.items()):
        entry = _entry(f"blobs/sha256/{sha256}", tarfile.REGTYPE, 0o644)
        entry.size = layer.size
        with store.blob(sha256).open("rb") as source:
            tar.addfile(entry, source)
    listed = [
        {
            "Config": f"blobs/sha256/{image.id}",
            "RepoTags": list(image.names),
            "Layers": [f"blobs/sha256/{layer.sha256}" for layer in image.layers],
        }
        for image in images
    ]
    named = [
        _descriptor(_MANIFEST, image.digest.removeprefix("sha256:"), len(image.manifest))
        | {"annotations": {_CONTAINERD: f"docker.io/library/{name}", _TITLE: name}}
        for image in images
        for name in image.names
    ]
    texts["index.json"] = _json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": named})
    # Docker before 28 and Podman read this one.
    texts["manifest.json"] = _json(listed)
    texts["oci-layout"] = _json({"imageLayoutVersion": "1.0.0"})
    for name, text in sorted(texts.items()):
        entry = _entry(name, tarfile.REGTYPE, 0o644)
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text))


def _descriptor(kind: str, sha256: str, size: int) -> dict[str, Any]:
    return {"mediaType": kind, "digest": f"sha256:{sha256}", "size": size}


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
