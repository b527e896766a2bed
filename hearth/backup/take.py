"""Make a backup: everything precious of a house into one encrypted file, or none at all."""

import json
import os
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, cast

from hearth.backup import BackupError
from hearth.backup.age import encrypting
from hearth.backup.archive import Writer
from hearth.backup.child import Child
from hearth.backup.judge import renamed
from hearth.backup.keep import PART, file_name
from hearth.backup.records import FORMAT, VAULT, Header, Report, prefix
from hearth.backup.volumes import Hands, Place, below
from hearth.files import sync_folder

_REPORT_BYTES = 2**26

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Made:
    """A backup that lies whole on its disk."""

    path: Path
    size: int
    entries: int
    databases: Mapping[str, str]
    damaged: Mapping[str, str]
    left_out: Sequence[str]
    began: Mapping[str, float]

    @property
    def good(self) -> bool:
        """Whether SQLite found every database whole."""
        return not self.damaged and all(said == "ok" for said in self.databases.values())


@dataclass(frozen=True, slots=True)
class Subject:
    """What is backed up: the house's name, its secrets, its folders, and for whom."""

    house: str
    domain: str
    version: str
    recipient: str
    secrets: Mapping[str, str]
    places: Sequence[Place]


def take(subject: Subject, folder: Path, hands: Hands, say: Say) -> Made:
    """Write a backup into `folder` and return what is in it; only one runs at a time.

    The file has its name only when it is whole and on the disk. Its owner alone may read it.

    Raises:
        BackupError: nothing was made; the text says why.
    """
    now = datetime.now(UTC)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        begin = f"{PART}{subject.house}-"
        for left in folder.glob(f"{begin}*"):
            left.unlink()
        handle, name = tempfile.mkstemp(prefix=begin, dir=folder)
    except OSError as error:
        raise BackupError(f"{folder}: {error.strerror}: name another by --to") from None
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as target:
            made = _write(subject, target, now, hands, say)
            os.fsync(target.fileno())
            size = os.fstat(target.fileno()).st_size
        path = folder / file_name(subject.house, now)
        part.rename(path)
        sync_folder(folder)
    except OSError as error:
        raise BackupError(f"{folder}: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)
    return Made(path, size, *made)


def _write(
    subject: Subject, target: IO[bytes], now: datetime, hands: Hands, say: Say
) -> tuple[int, dict[str, str], dict[str, str], list[str], dict[str, float]]:
    header = Header(
        format=FORMAT,
        house=subject.house,
        domain=subject.domain,
        hearth=subject.version,
        made_at=now.isoformat(timespec="seconds"),
        volumes=[place.volume for place in subject.places],
    )
    databases: dict[str, str] = {}
    began: dict[str, float] = {}
    with encrypting(subject.recipient, target) as sink:
        writer = Writer(sink, header)
        writer.text(VAULT, json.dumps(dict(subject.secrets)))
        for number, place in enumerate(subject.places):
            say(f"{place.service}: {place.path}")
            report = _volume(writer, prefix(header.volumes, number), place, hands)
            began[f"{place.service}:{place.path}"] = report.began
            for name, verdict in report.integrity.items():
                databases[f"{place.service}:{name}"] = verdict
        writer.end()
    return len(writer.entries), databases, writer.damaged, writer.left_out, began


def _volume(writer: Writer, base: str, place: Place, hands: Hands) -> Report:
    """Take one folder over from the tar that its instance writes."""
    with hands.program("take", place, place.copy_as) as child:
        child.close()
        report = _members(writer, base, place, child)
        # The rest of the tar is padding; a program that cannot get rid of it would not end.
        while child.read(2**20):
            pass
        child.wait()
    if report is None:
        raise BackupError(f"{place.instance}: {place.path} came only in part: run this again")
    for name, verdict in report.integrity.items():
        writer.judge(f"{base}/{name}", verdict)
    writer.left_out += [f"{base}/{name}" for name in report.left_out]
    writer.damaged |= {f"{base}/{name}": why for name, why in report.damaged.items()}
    return report


def _members(writer: Writer, base: str, place: Place, child: Child) -> Report | None:
    report: Report | None = None
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", child), mode="r|") as tar:
            for info in tar:
                content = tar.extractfile(info) if info.isreg() else None
                if info.name == "report.json" and content and info.size < _REPORT_BYTES:
                    report = Report.model_validate(json.load(content))
                    continue
                kind = "sqlite" if info.name.startswith("sqlite/") else "files"
                name = f"{base}/{below(info.name, kind)}"
                # Its new name would hide it from the check that reading makes, too.
                if not (info.isreg() or info.isdir()) or info.issparse():
                    raise BackupError(f"{place.instance}: {name} is a link or a device")
                writer.add(renamed(info, name), content)
    except (tarfile.TarError, ValueError) as error:
        # What it said on its way out is the reason; a cut tar is only the consequence.
        child.wait()
        raise BackupError(f"{place.instance}: {place.path}: {_one_line(error)}") from None
    return report


def _one_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
