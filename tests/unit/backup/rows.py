"""A data folder in which every file and row holds the same word."""

from __future__ import annotations

import sqlite3
from pathlib import Path


def fill(folder: Path, word: str) -> None:
    """Put some data into a folder."""
    (folder / "uploads").mkdir(parents=True)
    for name in ("a", "b", "uploads/c"):
        (folder / name).write_text(word)
    database = sqlite3.connect(folder / "webui.db")
    database.execute("CREATE TABLE chat (text TEXT)")
    database.execute("INSERT INTO chat VALUES (?)", (word,))
    database.commit()
    database.close()


def words(folder: Path) -> dict[str, str]:
    """Return the content of each file in a folder; of the database, its row."""
    found = {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".db"
    }
    database = sqlite3.connect(folder / "webui.db")
    found["webui.db"] = database.execute("SELECT text FROM chat").fetchone()[0]
    database.close()
    return found


def all_of(word: str) -> dict[str, str]:
    """Return what `words` finds after `fill`."""
    return dict.fromkeys(("a", "b", "uploads/c", "webui.db"), word)
