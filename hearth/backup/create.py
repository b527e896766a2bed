"""Make a backup: all data and secrets of a house in one encrypted file, or no file at all."""

import hashlib
import json
import os
import re
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

from hearth.backup import BackupError, age
from hearth.backup.agent import DataFolder
from hearth.backup.archive import (
    DATA,
    FORMAT,
    HEADER,
    VAULT,
    ArchivedVolume,
    BackupReport,
    Header,
    Manifest,
    Writer,
)
from hearth.files import sync_folder, write_atomic

# A file whose name starts so is incomplete; the next run removes it.
PART = ".hearth-backup-"
_REPORT_BYTES = 2**26
STATE = Path("/var/lib/hearth/backup")
_LAST = "last.json"

Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Created:
    """A complete backup on its disk; `began` has the time at which each folder's copy started."""

    path: Path
    size: int
    manifest: Manifest
    began: Mapping[str, float]

    @property
    def good(self) -> bool:
        """Whether SQLite found every database whole."""
        manifest = self.manifest
        return not manifest.damaged and all(v == "ok" for v in manifest.integrity.values())


@dataclass(frozen=True, slots=True)
class Subject:
    """What is backed up: the house's name, its secrets and folders, and the recipient."""

    house: str
    domain: str
    version: str
    recipient: str
    secrets: Mapping[str, str]
    folders: Sequence[DataFolder]


def file_name(house: str, now: datetime) -> str:
    """Name a backup after its house and its time in UTC; names sort by age."""
    return f"hearth-{house}-{now:%Y%m%dT%H%M%SZ}.tar.age"


def backups(folder: Path, house: str) -> list[Path]:
    """Return the backups of this house in a folder, the oldest first; empty without the folder."""
    form = re.compile(rf"hearth-{re.escape(house)}-\d{{8}}T\d{{6}}Z\.tar\.age")
    there = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in there if form.fullmatch(path.name))


def made_at(backup: Path) -> datetime:
    """Return when a backup was made, from its name."""
    stamp = backup.name.removesuffix(".tar.age").rpartition("-")[2]
    return datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


def note_made(backup: Path, state: Path = STATE) -> None:
    """Note the size and the digest of the last backup, by which later damage is found.

    Raises:
        BackupError: it cannot be read back.
    """
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with backup.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            noted = {"name": backup.name, "bytes": stream.tell(), "sha256": digest}
    except OSError as error:
        why = f"{error.strerror}: check its disk, and make another"
        raise BackupError(f"{backup} was made and cannot be read: {why}") from None
    write_atomic(state / _LAST, json.dumps(noted).encode(), 0o600)


def fault(backup: Path, state: Path = STATE) -> str:
    """Return what is wrong with a backup, as far as it shows without its key; else nothing."""
    if found := age.fault(backup):
        return found
    try:
        size, now = int(_noted(backup, state)["bytes"]), backup.stat().st_size
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return "" if size == now else f"it has {now:,} bytes, and had {size:,} when made"


def damage(backup: Path, state: Path = STATE) -> str | None:
    """Read a whole backup; return what differs from when it was made, None if that is not known.

    It takes seconds for each gigabyte.
    """
    try:
        known = str(_noted(backup, state)["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    try:
        with backup.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return "" if digest == known else "its content is not what it was when made"


def _noted(backup: Path, state: Path) -> dict[str, Any]:
    """Return what was noted of this backup; KeyError if the last one is another."""
    noted = json.loads((state / _LAST).read_text(encoding="utf-8"))
    if noted["name"] != backup.name:
        raise KeyError(backup.name)
    return dict(noted)


def rotate(newest: Path, house: str, keep: int) -> list[Path]:
    """Remove all but `keep` backups of this house: the one just made and those before it.

    One whose name is younger was made while a clock was wrong: it neither counts nor goes.
    Returns those removed.
    """
    there = backups(newest.parent, house)
    old = [path for path in there if path.name <= newest.name][:-keep]
    for path in old:
        path.unlink()
    return old


def create_backup(subject: Subject, to: Path, log: Log) -> Created:
    """Write a backup into the folder `to`; only one runs at a time.

    The file has its name only when it is complete and on the disk. Its owner alone may read it.

    Raises:
        BackupError: no backup was made; the text has the reason.
    """
    now = datetime.now(UTC)
    try:
        to.mkdir(mode=0o700, parents=True, exist_ok=True)
        start = f"{PART}{subject.house}-"
        for left in to.glob(f"{start}*"):
            left.unlink()
        handle, name = tempfile.mkstemp(prefix=start, dir=to)
    except OSError as error:
        raise BackupError(f"{to}: {error.strerror}: name another folder by --to") from None
    part, path = Path(name), to / file_name(subject.house, now)
    try:
        with os.fdopen(handle, "wb") as target:
            manifest, began = _write(subject, target, now, log)
            target.flush()
            os.fsync(handle)
            size = os.fstat(handle).st_size
        part.rename(path)
        sync_folder(to)
    except OSError as error:
        raise BackupError(f"{to}: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)
    return Created(path, size, manifest, began)


def _write(
    subject: Subject, target: IO[bytes], now: datetime, log: Log
) -> tuple[Manifest, dict[str, float]]:
    header = Header(
        format=FORMAT,
        house=subject.house,
        domain=subject.domain,
        hearth=subject.version,
        made_at=now.isoformat(timespec="seconds"),
        volumes=[
            ArchivedVolume(service=folder.service, path=folder.path, copy_as=folder.copy_as)
            for folder in subject.folders
        ],
    )
    began: dict[str, float] = {}
    with (
        age.encrypting(subject.recipient, target) as sink,
        tarfile.open(fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        writer = Writer(tar)
        writer.text(HEADER, header.model_dump_json())
        writer.text(VAULT, json.dumps(dict(subject.secrets)))
        for folder, base in zip(subject.folders, header.prefixes, strict=True):
            log(f"{folder.service}: {folder.path}")
            report = _add_folder(writer, base, folder)
            began[f"{folder.service}:{folder.path}"] = report.began
        return writer.end(), began


def _add_folder(writer: Writer, base: str, folder: DataFolder) -> BackupReport:
    """Copy one folder from the tar that its instance writes."""
    report: BackupReport | None = None
    with folder.program("copy", folder.copy_as) as child:
        child.close()
        try:
            with tarfile.open(fileobj=cast("IO[bytes]", child), mode="r|") as tar:
                for info in tar:
                    content = tar.extractfile(info) if info.isreg() else None
                    if info.name == "report.json" and content and info.size < _REPORT_BYTES:
                        report = BackupReport.model_validate(json.load(content))
                        continue
                    # The name comes from an instance; the writer validates all but its start.
                    start, _, name = info.name.partition("/")
                    if start != DATA:
                        raise BackupError(
                            f"{folder.instance}: it names {info.name!r}, which is not a valid path "
                            "in its folder"
                        )
                    writer.add(f"{base}{name}", info, content)
        except (tarfile.TarError, ValueError) as error:
            # The program's own error is the reason; a cut tar is only the consequence.
            child.wait()
            reason = str(error).partition("\n")[0]
            raise BackupError(f"{folder.instance}: {folder.path}: {reason}") from None
        # The rest of the tar is padding; a program whose output is not read would not end.
        while child.read(2**20):
            pass
        child.wait()
    if report is None:
        raise BackupError(
            f"{folder.instance}: {folder.path} was copied only partly: run this again"
        )
    writer.add_report(base, report)
    return report
