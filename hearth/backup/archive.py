"""The tar inside a backup: how it is written, and how every word of it is doubted when read.

`hearth.json` comes first, then `vault.json`, then `data/SERVICE/NUMBER/…` volume by volume, and
last `manifest.json`. Whoever knows the recipient can make such a file, and the recipient is no
secret: so names, kinds and sizes are checked, and nothing is unpacked here at all.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from typing import IO, Protocol, cast

from pydantic import ValidationError

from hearth.backup import BackupError
from hearth.backup.inside.put import Trouble
from hearth.backup.judge import Judge
from hearth.backup.records import (
    DATA,
    FORMAT,
    HEADER,
    MANIFEST,
    VAULT,
    Contents,
    Entry,
    Header,
    Manifest,
    prefix,
)

# JSON is read whole; this much and no more.
_SMALL_BYTES, _MANIFEST_BYTES = 2**22, 2**26
_PIECE = 2**20


class Readable(Protocol):
    """What can be read from."""

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes; none at the end."""
        ...


class Writable(Protocol):
    """What can be written to."""

    def write(self, data: bytes, /) -> int:
        """Write all of it."""
        ...


class _Counted:
    """A stream that notes what goes through it."""

    def __init__(self, source: Readable) -> None:
        self._source, self.digest, self.size = source, hashlib.sha256(), 0

    def read(self, size: int = -1) -> bytes:
        piece = self._source.read(size)
        self.digest.update(piece)
        self.size += len(piece)
        return piece


class Writer:
    """A backup while it is made."""

    def __init__(self, sink: Writable, header: Header) -> None:
        """Write the header."""
        self._tar = tarfile.open(  # noqa: SIM115 - `end` closes it
            fileobj=cast("IO[bytes]", sink), mode="w|", format=tarfile.PAX_FORMAT
        )
        self.header = header
        self._judge = Judge()
        self.entries: dict[str, Entry] = {}
        self.left_out: list[str] = []
        self.damaged: dict[str, str] = {}
        self.text(HEADER, header.model_dump_json())

    def text(self, name: str, content: str) -> None:
        """Add a small file of our own."""
        raw = content.encode()
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(raw), 0o600
        self.add(info, io.BytesIO(raw))

    def add(
        self, info: tarfile.TarInfo, content: Readable | None, integrity: str | None = None
    ) -> None:
        """Add a file, or a folder where there is no content.

        Raises:
            BackupError: no reader would take it.
        """
        try:
            self._judge.take(info)
        except Trouble as trouble:
            raise BackupError(f"{trouble}: nobody could put that back") from None
        counted = _Counted(content or io.BytesIO())
        self._tar.addfile(info, cast("IO[bytes]", counted) if content else None)
        digest = counted.digest.hexdigest() if content else ""
        self.entries[info.name] = Entry(size=counted.size, sha256=digest, integrity=integrity)

    def judge(self, name: str, integrity: str) -> None:
        """Note what SQLite said of an entry that is in already."""
        if name not in self.entries:
            raise BackupError(f"{name}: judged, but not there")
        self.entries[name] = self.entries[name].model_copy(update={"integrity": integrity})

    def end(self) -> None:
        """Write the manifest; without it the file is not whole."""
        manifest = Manifest(
            entries=self.entries, left_out=sorted(self.left_out), damaged=self.damaged
        )
        # Names need not be UTF-8 on a disk; JSON's own escapes carry the others.
        text = json.dumps(manifest.model_dump())
        if len(text) > _MANIFEST_BYTES:
            raise BackupError(f"{len(self.entries)} files are more than one backup can name")
        self.text(MANIFEST, text)
        self._tar.close()


class _Sure:
    """An entry's content; that it ends too early is said in the same words as elsewhere."""

    def __init__(self, source: Readable, where: str) -> None:
        self._source, self._where = source, where

    def read(self, size: int = -1) -> bytes:
        try:
            return self._source.read(size)
        except (tarfile.TarError, OSError) as error:
            raise BackupError(f"{self._where}: damaged: {error}: take another backup") from None


def members(source: Readable, where: str) -> Iterator[tuple[tarfile.TarInfo, Readable | None]]:
    """Yield every entry with its content (none for a folder), in order and proper by its name.

    Raises:
        BackupError: a link, a device, a name that leads elsewhere, one that comes twice, or a cut.
    """
    judge = Judge()
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", source), mode="r|", bufsize=_PIECE) as tar:
            for info in tar:
                judge.take(info)
                content = tar.extractfile(info) if info.isreg() else None
                yield info, _Sure(cast("Readable", content), where) if content else None
    except Trouble as trouble:
        raise BackupError(f"{where}: refused: {trouble}") from None
    except (tarfile.TarError, OSError, ValueError) as error:
        raise BackupError(f"{where}: damaged: {error}: take another backup") from None


def check(source: Readable, where: str) -> Contents:
    """Read a backup from its first to its last byte and return what it holds; nothing is written.

    Raises:
        BackupError: it is newer than this Hearth, not whole, or not what its manifest says.
    """
    found: dict[str, tuple[int, str]] = {}
    texts: dict[str, str] = {}
    header: Header | None = None
    for info, content in members(source, where):
        if MANIFEST in texts or (header is None) != (info.name == HEADER):
            raise BackupError(f"{where}: refused: {info.name} is out of its order")
        if info.name in (HEADER, VAULT, MANIFEST):
            if info.size > (_MANIFEST_BYTES if info.name == MANIFEST else _SMALL_BYTES):
                raise BackupError(f"{where}: refused: {info.name} is too large")
            raw = content.read() if content else b""
            texts[info.name] = raw.decode(errors="replace")
            found[info.name] = (len(raw), hashlib.sha256(raw).hexdigest())
            header = _header(texts[HEADER], where) if info.name == HEADER else header
        else:
            found[info.name] = _digest(content)
    return _agreed(header, texts, found, where)


def _digest(content: Readable | None) -> tuple[int, str]:
    if content is None:
        return 0, ""
    counted = _Counted(content)
    while counted.read(_PIECE):
        pass
    return counted.size, counted.digest.hexdigest()


def _header(text: str, where: str) -> Header:
    """Read the header; one of a newer Hearth may say anything else, but not its format."""
    try:
        said = json.loads(text)
        newer = said.get("format") if isinstance(said, dict) else None
        if isinstance(newer, int) and newer > FORMAT:
            raise BackupError(
                f"{where}: made by a newer Hearth (format {newer}, this one reads {FORMAT}): "
                "update this checkout first"
            )
        return Header.model_validate_json(text)
    except (ValueError, ValidationError):
        raise BackupError(f"{where}: refused: its {HEADER} says nothing sensible") from None


def _agreed(
    header: Header | None, texts: dict[str, str], found: dict[str, tuple[int, str]], where: str
) -> Contents:
    """Compare what was read with the manifest, both ways."""
    if header is None or MANIFEST not in texts or VAULT not in texts:
        raise BackupError(f"{where}: cut short: it ends before its manifest: take another backup")
    try:
        manifest = Manifest.model_validate(json.loads(texts[MANIFEST]))
        secrets = json.loads(texts[VAULT])
    except (ValueError, ValidationError):
        raise BackupError(f"{where}: refused: its manifest says nothing sensible") from None
    del found[MANIFEST]
    said = {name: (entry.size, entry.sha256) for name, entry in manifest.entries.items()}
    if wrong := sorted(name for name in {*said, *found} if said.get(name) != found.get(name)):
        raise BackupError(
            f"{where}: damaged: {wrong[0]} is not what the manifest says: take another backup"
        )
    own = [f"{prefix(header.volumes, number)}/" for number in range(len(header.volumes))]
    for name in found:
        if name.startswith(f"{DATA}/") and not any(name.startswith(begin) for begin in own):
            raise BackupError(f"{where}: refused: {name} belongs to no folder that it names")
    if not isinstance(secrets, dict) or not all(
        isinstance(text, str) for pair in secrets.items() for text in pair
    ):
        raise BackupError(f"{where}: refused: its {VAULT} says nothing sensible")
    return Contents(header, manifest, secrets)
