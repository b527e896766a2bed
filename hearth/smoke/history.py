"""The receipts of earlier runs: kept, bounded, and found by name; one that is broken is named."""

import errno
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hearth.files import write_atomic
from hearth.paths import RECEIPT, RECEIPT_FOLDER, TREND
from hearth.smoke.receipt import Receipt, VerifyError, parse, render
from hearth.smoke.trend import TREND_FORM, trends

# A receipt has some hundred kilobytes.
MOST, MOST_BYTES, ONE_BYTES = 60, 20 * 2**20, 8 * 2**20
_NAME = re.compile(r"\d{8}T\d{6}Z")
_BACK = re.compile(r"last(?:-(\d{1,3}))?")


@dataclass(frozen=True, slots=True)
class Kept:
    """One kept receipt; `name` is the time of its run, in UTC."""

    name: str
    path: Path
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class History:
    """The kept receipts, oldest first, and a line for each file that cannot be read."""

    kept: Sequence[Kept] = ()
    problems: Sequence[str] = ()

    @property
    def receipts(self) -> list[Receipt]:
        """The receipts alone, oldest first."""
        return [one.receipt for one in self.kept]


def read(path: Path) -> Receipt:
    """Return the receipt in a file, also one of an older Hearth.

    Raises:
        VerifyError: there is none, or it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            text = stream.read(ONE_BYTES + 1)
        if len(text) > ONE_BYTES:
            raise VerifyError(f"{path}: too long for a receipt")
        return parse(text)
    except OSError as error:
        raise VerifyError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise VerifyError(f"{path}: no readable receipt: {error}") from error


def read_history(folder: Path = RECEIPT_FOLDER) -> History:
    """Return every kept receipt, and the last one even if it could not be kept."""
    kept, problems = dict[str, Kept](), []
    # The last one comes last: where it is kept as well, the kept file is the same.
    for path in [*_files(folder), *(p for p in [folder / RECEIPT] if p.exists())]:
        try:
            receipt = read(path)
            name = name_of(receipt)
            kept.setdefault(name, Kept(name, path, receipt))
        except VerifyError as error:
            problems.append(str(error))
    return History([kept[name] for name in sorted(kept)], problems)


def name_of(receipt: Receipt) -> str:
    """Return the name under which a receipt is kept.

    Raises:
        VerifyError: its time is none.
    """
    try:
        return f"{datetime.fromisoformat(receipt.made).astimezone(UTC):%Y%m%dT%H%M%SZ}"
    except (ValueError, OverflowError):
        raise VerifyError(f"no readable receipt: its time is {receipt.made!r}") from None


def find(history: History, which: str) -> Kept:
    """Return the receipt that `which` names: `last`, `last-1`, the start of a name, or a path.

    Raises:
        VerifyError: there is none, or several have this start.
    """
    if "/" in which or which.endswith(".json"):
        receipt = read(Path(which))
        return Kept(name_of(receipt), Path(which), receipt)
    if not history.kept:
        raise VerifyError("there is no receipt yet: run `hearth verify`")
    if back := _BACK.fullmatch(which):
        place = len(history.kept) - 1 - int(back[1] or 0)
        if place < 0:
            raise VerifyError(f"{which}: only {len(history.kept)} receipts are kept")
        return history.kept[place]
    found = [one for one in history.kept if one.name.startswith(which)]
    if len(found) != 1:
        what = f"{len(found)} receipts have" if found else "no receipt has"
        raise VerifyError(f"{what} a name that starts with {which}: see `hearth receipt`")
    return found[0]


def write(receipt: Receipt, folder: Path) -> None:
    """Write the receipt, its page and the trend, and keep it; each file whole or not at all.

    Raises:
        VerifyError: the folder cannot be written; the last receipt is still there.
    """
    text = as_text(receipt)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        before = read_history(folder).kept
        write_atomic(folder / RECEIPT, text)
        write_atomic(folder / "index.html", render(receipt).encode())
        # The receipt of an older Hearth was kept nowhere else.
        for old in before:
            if old.path == folder / RECEIPT:
                _keep(folder, old.name, as_text(old.receipt))
        _keep(folder, name_of(receipt), text)
        document = {"form": TREND_FORM, "house": receipt.house, "made": receipt.made}
        found = [one.as_json() for one in trends(read_history(folder).receipts)]
        content = json.dumps(document | {"figures": found}, ensure_ascii=False)
        write_atomic(folder / TREND, content.encode() + b"\n")
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        todo = "make room on the disk" if full else "run this as root on the house"
        raise VerifyError(f"cannot write the receipt: {error}: {todo}") from error


def as_text(receipt: Receipt) -> bytes:
    """Return the content of a receipt's file."""
    return json.dumps(receipt.as_json(), indent=2, ensure_ascii=False).encode() + b"\n"


def _keep(folder: Path, name: str, text: bytes) -> None:
    """Write one more file, after the oldest ones made room for it."""
    place = folder / "history"
    place.mkdir(exist_ok=True, mode=0o755)
    # What a run left that was killed while it wrote; its name would never come again.
    for left in place.glob(".*.new"):
        left.unlink()
    files = _files(folder)
    sizes = [path.stat().st_size for path in files]
    while files and (len(files) >= MOST or sum(sizes) + len(text) > MOST_BYTES):
        files.pop(0).unlink()
        sizes.pop(0)
    write_atomic(place / f"{name}.json", text)


def _files(folder: Path) -> list[Path]:
    files = sorted((folder / "history").glob("*.json"))
    return [path for path in files if _NAME.fullmatch(path.stem)]
