"""The tar inside a backup: how it is written, and how all of it is validated when it is read.

`hearth.json` comes first, then `vault.json`, then `data/SERVICE/NUMBER/…` volume by volume, and
last `manifest.json`. Anyone who knows the recipient can make such a file, and the recipient is not
secret: so names, kinds and sizes are checked, and this module never unpacks anything.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, cast

from pydantic import BaseModel, ConfigDict, TypeAdapter

from hearth.backup import BackupError
from hearth.backup.inside import GONE, WORK

FORMAT = 1
HEADER, VAULT, MANIFEST = "hearth.json", "vault.json", "manifest.json"
DATA = "data"
# JSON is read whole, so its size is limited.
_SMALL_BYTES, _MANIFEST_BYTES = 2**22, 2**26
_PIECE = 2**20
# A time in the year 2242.
_LATEST = 2**33
# What Linux allows, less room for the folder's own path.
_PART_BYTES, _NAME_BYTES = 255, 3840


class ArchiveRecord(BaseModel):
    """What is read is exactly what was written."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ArchivedVolume(ArchiveRecord):
    """One data folder: its service, its path, and how it was copied."""

    service: str
    path: str
    copy_as: str


class Header(ArchiveRecord):
    """The first entry of a backup."""

    format: int
    house: str
    domain: str
    hearth: str
    made_at: str
    volumes: list[ArchivedVolume]

    @property
    def prefixes(self) -> list[str]:
        """Name the folder of each volume in the tar, with a slash at its end."""
        return [f"{DATA}/{one.service}/{number}/" for number, one in enumerate(self.volumes)]


class Entry(ArchiveRecord):
    """The content of one file; a folder has no digest."""

    size: int
    sha256: str


class Findings(ArchiveRecord):
    """SQLite's verdict on each copied database; what was found damaged, and what was left out."""

    integrity: dict[str, str] = {}
    damaged: dict[str, str]
    left_out: list[str]


class BackupReport(Findings):
    """What `inside.py` reports of a folder; it comes from an instance, so it is checked."""

    began: float


class Manifest(Findings):
    """Every entry before this one, and the findings in all folders."""

    entries: dict[str, Entry]

    def summary(self) -> dict[str, Any]:
        """Describe it for programs, without the single files."""
        size = sum(entry.size for entry in self.entries.values())
        return self.model_dump() | {"entries": len(self.entries), "bytes": size}


@dataclass(frozen=True, slots=True)
class Contents:
    """The records of a backup that was found whole; secrets show in no repr."""

    header: Header
    manifest: Manifest
    secrets: Mapping[str, str] = field(repr=False)

    def sizes(self) -> list[int]:
        """Return the bytes of each volume."""
        entries = self.manifest.entries.items()
        return [
            sum(entry.size for name, entry in entries if name.startswith(prefix))
            for prefix in self.header.prefixes
        ]


class Content:
    """The content of a file, or of a folder without one; counted and digested as it is read."""

    def __init__(self, source: IO[bytes] | None) -> None:
        self._source, self._digest, self._size = source, hashlib.sha256(), 0

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes; none at the end."""
        piece = self._source.read(size) if self._source else b""
        self._digest.update(piece)
        self._size += len(piece)
        return piece

    def entry(self) -> Entry:
        """Read to the end and describe it, for the manifest."""
        while self.read(_PIECE):
            pass
        return Entry(size=self._size, sha256=self._digest.hexdigest() if self._source else "")


def renamed(info: tarfile.TarInfo, name: str) -> tarfile.TarInfo:
    """Return a member under another name, without owners, links or devices."""
    # A fresh one: the old one's extended headers would keep its old name.
    clean = tarfile.TarInfo(name)
    clean.type = tarfile.DIRTYPE if info.isdir() else tarfile.REGTYPE
    clean.size, clean.mode = 0 if info.isdir() else info.size, info.mode & 0o777
    # Not every number is a time that a disk can store.
    clean.mtime = int(info.mtime) if 0 <= info.mtime < _LATEST else 0
    return clean


def small_file(name: str, text: str) -> tuple[tarfile.TarInfo, IO[bytes]]:
    """Return a small file of our own and its content."""
    raw = text.encode()
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(raw), 0o600
    return info, io.BytesIO(raw)


class Validator:
    """Decides in their order whether entries may be in a backup, for its writer and its reader.

    So nothing is backed up that cannot be restored.
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def accept(self, name: str, info: tarfile.TarInfo) -> None:
        """Accept one more entry; ValueError when it has no place in a backup."""
        parts = name.split("/")
        proper = (parts[0] == DATA and len(parts) > 3) or name in (HEADER, VAULT, MANIFEST)
        if not proper or {"", ".", ".."} & {*parts} or "\0" in name:
            raise ValueError(f"it names {name!r}, which is not a valid path in a backup")
        # A restore uses these names in the folder's top only; further down they are allowed.
        if parts[3:] and parts[3] in (WORK, GONE):
            raise ValueError(f"{name!r} is not a valid path in a folder")
        if not (info.isdir() or info.isreg()) or info.issparse():
            raise ValueError(f"{name} is a link or a device")
        try:
            sizes = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
        except UnicodeError:
            raise ValueError(f"{name!r}: no disk can store such a name") from None
        if max(sizes) > _PART_BYTES or sum(sizes) + len(sizes) > _NAME_BYTES:
            raise ValueError(f"{name[:60]!r}… is longer than a path may be")
        if name in self._taken:
            raise ValueError(f"{name} is in the backup twice")
        above = {"/".join(parts[:count]) for count in range(1, len(parts))}
        if name in (self._files if info.isdir() else self._folders) or above & self._files:
            raise ValueError(f"{name} is a file here and a folder there")
        self._taken.add(name)
        self._folders |= above
        (self._folders if info.isdir() else self._files).add(name)


class Writer:
    """The entries of a backup while they are written to its tar."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar, self._validator = tar, Validator()
        self.manifest = Manifest(entries={}, damaged={}, left_out=[], integrity={})

    def add(self, name: str, info: tarfile.TarInfo, source: IO[bytes] | None) -> None:
        """Add a file, or a folder where there is no content, under this name.

        Raises:
            BackupError: no reader would accept it.
        """
        try:
            self._validator.accept(name, info)
        except ValueError as error:
            raise BackupError(f"{error}: it could not be restored") from None
        content = Content(source)
        self._tar.addfile(renamed(info, name), cast("IO[bytes]", content))
        self.manifest.entries[name] = content.entry()

    def text(self, name: str, content: str) -> None:
        """Add a small file of our own."""
        self.add(name, *small_file(name, content))

    def add_report(self, base: str, report: BackupReport) -> None:
        """Note a report's findings on the entries below `base`, which are written already."""
        for name in report.integrity:
            if f"{base}{name}" not in self.manifest.entries:
                raise BackupError(f"{base}{name}: it has a check result, but is missing")
        manifest = self.manifest
        manifest.integrity.update({f"{base}{name}": v for name, v in report.integrity.items()})
        manifest.damaged.update({f"{base}{name}": why for name, why in report.damaged.items()})
        manifest.left_out.extend(f"{base}{name}" for name in report.left_out)

    def end(self) -> Manifest:
        """Write the manifest and return it; without it the file is incomplete."""
        self.manifest.left_out.sort()
        # Names need not be UTF-8 on a disk; JSON's own escapes carry the others.
        text = json.dumps(self.manifest.model_dump())
        if len(text) > _MANIFEST_BYTES:
            count = len(self.manifest.entries)
            raise BackupError(f"{count} files are more than one backup can name")
        self.text(MANIFEST, text)
        return self.manifest


def members(source: IO[bytes]) -> Iterator[tuple[tarfile.TarInfo, Content]]:
    """Yield every entry with its content, in order and with a valid name.

    Raises:
        BackupError: a link, a device, a name that leads outside or comes twice.
    """
    validator = Validator()
    with tarfile.open(fileobj=source, mode="r|", bufsize=_PIECE) as tar:
        for info in tar:
            try:
                validator.accept(info.name, info)
            except ValueError as error:
                raise BackupError(f"refused: {error}") from None
            yield info, Content(tar.extractfile(info) if info.isreg() else None)


def check(source: IO[bytes]) -> Contents:
    """Read a backup from its first to its last byte and return its records; nothing is written.

    Raises:
        BackupError: it is newer than this Hearth, incomplete, or does not match its manifest.
    """
    found: dict[str, Entry] = {}
    texts: dict[str, str] = {}
    header: Header | None = None
    try:
        for info, content in members(source):
            if MANIFEST in texts or (header is None) != (info.name == HEADER):
                raise BackupError(f"refused: {info.name} is out of order")
            if info.name in (HEADER, VAULT, MANIFEST):
                if info.size > (_MANIFEST_BYTES if info.name == MANIFEST else _SMALL_BYTES):
                    raise BackupError(f"refused: {info.name} is too large")
                texts[info.name] = content.read().decode(errors="replace")
                header = header or _header(texts[HEADER])
            found[info.name] = content.entry()
    except (tarfile.TarError, OSError, ValueError) as error:
        raise BackupError(f"damaged: {error}: use another backup") from None
    if header is None or MANIFEST not in texts or VAULT not in texts:
        raise BackupError("cut short: it ends before its manifest: use another backup")
    return _matched(header, texts, found)


def _header(text: str) -> Header:
    """Read the header; a newer Hearth's may differ in everything but `format`."""
    try:
        record = json.loads(text)
        newer = record.get("format") if isinstance(record, dict) else None
        if isinstance(newer, int) and newer > FORMAT:
            raise BackupError(
                f"made by a newer Hearth (format {newer}, this one reads {FORMAT}): "
                "update this checkout first"
            )
        return Header.model_validate(record)
    except ValueError:
        raise BackupError(f"refused: its {HEADER} is not valid") from None


def _matched(header: Header, texts: dict[str, str], found: dict[str, Entry]) -> Contents:
    """Compare what was read with the manifest, in both directions."""
    try:
        manifest = Manifest.model_validate(json.loads(texts[MANIFEST]))
    except ValueError:
        raise BackupError(f"refused: its {MANIFEST} is not valid") from None
    del found[MANIFEST]
    listed = manifest.entries
    if wrong := sorted(name for name in {*listed, *found} if listed.get(name) != found.get(name)):
        raise BackupError(f"damaged: {wrong[0]} does not match the manifest: use another backup")
    own = (HEADER, VAULT, *header.prefixes)
    if strange := [name for name in found if not name.startswith(own)]:
        raise BackupError(f"refused: {strange[0]} belongs to none of its volumes")
    try:
        secrets = TypeAdapter(dict[str, str]).validate_json(texts[VAULT], strict=True)
    except ValueError:
        raise BackupError(f"refused: its {VAULT} is not valid") from None
    return Contents(header, manifest, secrets)
