"""Names of backups in a folder, and which of them have had their time."""

import re
from datetime import datetime
from pathlib import Path

# A file that begins so is not whole; the next run removes it.
PART = ".hearth-backup-"


def file_name(house: str, now: datetime) -> str:
    """Name a backup after its house and its moment, which is in UTC; names sort by age."""
    return f"hearth-{house}-{now:%Y%m%dT%H%M%SZ}.tar.age"


def rotate(folder: Path, house: str, keep: int) -> list[Path]:
    """Remove all but the newest `keep` backups of this house; return those removed."""
    form = re.compile(rf"hearth-{re.escape(house)}-\d{{8}}T\d{{6}}Z\.tar\.age")
    found = sorted(path for path in folder.iterdir() if form.fullmatch(path.name))
    old = found[:-keep]
    for path in old:
        path.unlink()
    return old
