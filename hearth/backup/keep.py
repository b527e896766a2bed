"""Names of backups in a folder, and which of them have had their time."""

import re
from datetime import datetime
from pathlib import Path

# A file that begins so is not whole; the next run removes it.
PART = ".hearth-backup-"


def file_name(house: str, now: datetime) -> str:
    """Name a backup after its house and its moment, which is in UTC; names sort by age."""
    return f"hearth-{house}-{now:%Y%m%dT%H%M%SZ}.tar.age"


def rotate(made: Path, house: str, keep: int) -> list[Path]:
    """Remove all but `keep` backups of this house, the one just made and those before it.

    One that claims to be younger was made while a clock was wrong: it neither counts nor goes.
    Returns those removed.
    """
    form = re.compile(rf"hearth-{re.escape(house)}-\d{{8}}T\d{{6}}Z\.tar\.age")
    there = (path for path in made.parent.iterdir() if form.fullmatch(path.name))
    found = sorted(path for path in there if path.name <= made.name)
    old = found[:-keep]
    for path in old:
        path.unlink()
    return old
