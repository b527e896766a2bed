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
from typing import IO, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, TypeAdapter

from hearth.backup import BackupError
from hearth.backup.age import Decrypted
from hearth.backup.inside import AgentError, NameValidator

FORMAT = 1
HEADER, VAULT, MANIFEST = "hearth.json", "vault.json", "manifest.json"
DATA = "data"
# JSON is read whole, so its size is limited.
_SMALL_BYTES, _MANIFEST_BYTES = 2**22, 2**26
_PIECE = 2**20
# A time in the year 2242.
_LATEST = 2**33


class Record(BaseModel):
    """What is read is exactly what was written."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Volume(Record):
    """One data folder: its service, its path, and how it was copied."""

    service: str
    path: str
    copy_as: Literal["sqlite", "files"]


class Header(Record):
    """The first entry of a backup."""

    format: int
    house: str
    domain: str
    hearth: str
    made_at: str
    volumes: list[Volume]

    @property
    def prefixes(self) -> list[str]:
        """Name the folder of each volume in the tar, with a slash at its end."""
        return [f"{DATA}/{one.service}/{number}/" for number, one in enumerate(self.volumes)]


class Entry(Record):
    """One file or folder; `integrity` is SQLite's verdict on a copied database."""

    size: int
    sha256: str
    integrity: str | None = None


class Manifest(Record):
    """Every entry before this one, and what was left out and found damaged on the way."""

    entries: dict[str, Entry]
    left_out: list[str]
    damaged: dict[str, str]

    @property
    def integrity(self) -> dict[str, str]:
        """SQLite's verdict on each copied database."""
        found = {name: entry.integrity for name, entry in self.entries.items()}
        return {name: verdict for name, verdict in found.items() if verdict is not None}

    def summary(self) -> dict[str, Any]:
        """Describe it for programs, without the single files."""
        return {
            "entries": len(self.entries),
            "bytes": sum(entry.size for entry in self.entries.values()),
            "integrity": self.integrity,
            "damaged": self.damaged,
            "left_out": self.left_out,
        }


class Report(Record):
    """What `inside.py` reports of a folder; it comes from an instance, so it is checked."""

    began: float
    integrity: dict[str, str]
    damaged: dict[str, str]
    left_out: list[str]


@dataclass(frozen=True, slots=True)
class Contents:
    """The records of a backup that was found whole; secrets show in no repr."""

    header: Header
    manifest: Manifest
    secrets: Mapping[str, str] = field(repr=False)

    def expected(self, number: int) -> dict[str, dict[str, Any]]:
        """Return a volume's entries: name below its folder to size and digest."""
        start = self.header.prefixes[number]
        return {
            name.removeprefix(start): {"size": entry.size, "sha256": entry.sha256}
            for name, entry in self.manifest.entries.items()
            if name.startswith(start)
        }


class Content:
    """An entry's content, counted and digested as it is read.

    With `where`, an end that comes too early raises the same error as other damage.
    """

    def __init__(self, source: IO[bytes] | None, where: str | None = None) -> None:
        self._source, self._where = source or io.BytesIO(), where
        self._digest, self.size = hashlib.sha256(), 0

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes; none at the end."""
        try:
            piece = self._source.read(size)
        except (tarfile.TarError, OSError) as error:
            if self._where is None:
                raise
            raise BackupError(f"{self._where}: damaged: {error}: use another backup") from None
        self._digest.update(piece)
        self.size += len(piece)
        return piece

    def entry(self, info: tarfile.TarInfo) -> Entry:
        """Describe what was read, for the manifest."""
        return Entry(size=self.size, sha256=self._digest.hexdigest() if info.isreg() else "")


def renamed(info: tarfile.TarInfo, name: str) -> tarfile.TarInfo:
    """Return a member under another name, without owners, links or devices."""
    # A fresh one: the old one's extended headers would keep its old name.
    clean = tarfile.TarInfo(name)
    clean.type = tarfile.DIRTYPE if info.isdir() else tarfile.REGTYPE
    clean.size, clean.mode = 0 if info.isdir() else info.size, info.mode & 0o777
    # Not every number is a time that a disk can store.
    clean.mtime = int(info.mtime) if 0 <= info.mtime < _LATEST else 0
    return clean


class Validator:
    """Decides whether an entry may be in a backup, for its writer as for its reader."""

    def __init__(self) -> None:
        self._folders: dict[str, NameValidator] = {}

    def accept(self, name: str, info: tarfile.TarInfo) -> None:
        """Accept one more entry; AgentError when it has no place in a backup."""
        parts = name.split("/")
        proper = (parts[0] == DATA and len(parts) > 3) or name in (HEADER, VAULT, MANIFEST)
        if not proper or {"", ".", ".."} & {*parts} or "\0" in name:
            raise AgentError(f"it names {name!r}, which is not a valid path in a backup")
        if not (info.isdir() or info.isreg()) or info.issparse():
            raise AgentError(f"{name} is a link or a device")
        folder = "/".join(parts[:3]) if parts[0] == DATA else ""
        names = self._folders.setdefault(folder, NameValidator())
        names.accept(name.removeprefix(f"{folder}/"), info.isdir())


class Writer:
    """The entries of a backup while they are written to its tar."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar, self._validator = tar, Validator()
        self.entries: dict[str, Entry] = {}
        self.left_out: list[str] = []
        self.damaged: dict[str, str] = {}

    def add(self, name: str, info: tarfile.TarInfo, source: IO[bytes] | None) -> None:
        """Add a file, or a folder where there is no content, under this name.

        Raises:
            BackupError: no reader would accept it.
        """
        try:
            self._validator.accept(name, info)
        except AgentError as error:
            raise BackupError(f"{error}: it could not be restored") from None
        content = Content(source)
        self._tar.addfile(renamed(info, name), content)
        self.entries[name] = content.entry(info)

    def text(self, name: str, content: str) -> None:
        """Add a small file of our own."""
        raw = content.encode()
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(raw), 0o600
        self.add(name, info, io.BytesIO(raw))

    def add_report(self, base: str, report: Report) -> None:
        """Note a report's verdicts on the entries below `base`, which are written already."""
        for below, integrity in report.integrity.items():
            name = f"{base}{below}"
            if name not in self.entries:
                raise BackupError(f"{name}: it has a check result, but is missing")
            self.entries[name] = self.entries[name].model_copy(update={"integrity": integrity})
        self.left_out += [f"{base}{name}" for name in report.left_out]
        self.damaged |= {f"{base}{name}": reason for name, reason in report.damaged.items()}

    def end(self) -> Manifest:
        """Write the manifest and return it; without it the file is incomplete."""
        left_out, damaged = sorted(self.left_out), self.damaged
        manifest = Manifest(entries=self.entries, left_out=left_out, damaged=damaged)
        # Names need not be UTF-8 on a disk; JSON's own escapes carry the others.
        text = json.dumps(manifest.model_dump())
        if len(text) > _MANIFEST_BYTES:
            raise BackupError(f"{len(self.entries)} files are more than one backup can name")
        self.text(MANIFEST, text)
        return manifest


def members(source: Decrypted, where: str) -> Iterator[tuple[tarfile.TarInfo, Content]]:
    """Yield every entry with its content, in order and with a valid name.

    Raises:
        BackupError: a link, a device, a name that leads outside or comes twice, or a cut.
    """
    validator = Validator()
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", source), mode="r|", bufsize=_PIECE) as tar:
            for info in tar:
                validator.accept(info.name, info)
                yield info, Content(tar.extractfile(info) if info.isreg() else None, where)
    except AgentError as error:
        raise BackupError(f"{where}: refused: {error}") from None
    except (tarfile.TarError, OSError, ValueError) as error:
        raise BackupError(f"{where}: damaged: {error}: use another backup") from None


def check(source: Decrypted, where: str) -> Contents:
    """Read a backup from its first to its last byte and return its records; nothing is written.

    Raises:
        BackupError: it is newer than this Hearth, incomplete, or does not match its manifest.
    """
    found: dict[str, Entry] = {}
    texts: dict[str, str] = {}
    header: Header | None = None
    for info, content in members(source, where):
        if MANIFEST in texts or (header is None) != (info.name == HEADER):
            raise BackupError(f"{where}: refused: {info.name} is out of order")
        if info.name in (HEADER, VAULT, MANIFEST):
            if info.size > (_MANIFEST_BYTES if info.name == MANIFEST else _SMALL_BYTES):
                raise BackupError(f"{where}: refused: {info.name} is too large")
            texts[info.name] = content.read().decode(errors="replace")
            header = _header(texts[HEADER], where) if info.name == HEADER else header
        while content.read(_PIECE):
            pass
        found[info.name] = content.entry(info)
    return _matched(header, texts, found, where)


def _header(text: str, where: str) -> Header:
    """Read the header; a newer Hearth's may differ in everything but `format`."""
    try:
        record = json.loads(text)
        newer = record.get("format") if isinstance(record, dict) else None
        if isinstance(newer, int) and newer > FORMAT:
            raise BackupError(
                f"{where}: made by a newer Hearth (format {newer}, this one reads {FORMAT}): "
                "update this checkout first"
            )
        return Header.model_validate(record)
    except ValueError:
        raise BackupError(f"{where}: refused: its {HEADER} is not valid") from None


def _matched(
    header: Header | None, texts: dict[str, str], found: dict[str, Entry], where: str
) -> Contents:
    """Compare what was read with the manifest, in both directions."""
    if header is None or MANIFEST not in texts or VAULT not in texts:
        raise BackupError(f"{where}: cut short: it ends before its manifest: use another backup")
    try:
        manifest = Manifest.model_validate(json.loads(texts[MANIFEST]))
    except ValueError:
        raise BackupError(f"{where}: refused: its {MANIFEST} is not valid") from None
    del found[MANIFEST]
    listed = {
        name: entry.model_copy(update={"integrity": None})
        for name, entry in manifest.entries.items()
    }
    if wrong := sorted(name for name in {*listed, *found} if listed.get(name) != found.get(name)):
        raise BackupError(
            f"{where}: damaged: {wrong[0]} does not match the manifest: use another backup"
        )
    own = tuple(header.prefixes)
    for name in found:
        if name.startswith(f"{DATA}/") and not name.startswith(own):
            raise BackupError(f"{where}: refused: {name} belongs to none of its volumes")
    try:
        secrets = TypeAdapter(dict[str, str]).validate_json(texts[VAULT], strict=True)
    except ValueError:
        raise BackupError(f"{where}: refused: its {VAULT} is not valid") from None
    return Contents(header, manifest, secrets)
