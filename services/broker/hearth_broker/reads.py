"""What runs read from outside, kept on disk so that a restart does not make them look clean."""

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from .verbs import EXCERPT, Call, Read

FILE = "reads.db"
# Of each consumer, whole texts; of older ones only the start is kept.
WHOLE = 200
KEPT_S, RECENT_S = 7 * 86_400, 3600
# More than a person looks at, or a model remembers.
MOST = 100
_SCHEMA = """
CREATE TABLE IF NOT EXISTS reads (
  id INTEGER PRIMARY KEY, consumer TEXT, run TEXT, chat TEXT, at REAL, origin TEXT, text TEXT,
  whole INTEGER);
CREATE INDEX IF NOT EXISTS by_consumer ON reads (consumer, at);
"""


class Reads:
    """The texts from outside that each consumer was given, by run and chat."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._path = folder / FILE
        # Nobody but root reads what agents read.
        os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        with closing(self._connect()) as base:
            base.execute("PRAGMA journal_mode = WAL")
            base.executescript(_SCHEMA)

    def note(self, call: Call, origin: str, text: str) -> None:
        """Remember what `call` was given."""
        now = self._now()
        with closing(self._connect()) as base, base:
            base.execute(
                "INSERT INTO reads (consumer, run, chat, at, origin, text, whole) "
                "VALUES (?, ?, ?, ?, ?, ?, 1)",
                (call.consumer, call.run, call.chat, now, origin, text),
            )
            base.execute(
                "UPDATE reads SET text = substr(text, 1, ?), whole = 0 WHERE whole AND id IN "
                "(SELECT id FROM reads WHERE consumer = ? ORDER BY id DESC LIMIT -1 OFFSET ?)",
                (EXCERPT, call.consumer, WHOLE),
            )
            base.execute("DELETE FROM reads WHERE at < ?", (now - KEPT_S,))

    def of(self, call: Call, believed: bool) -> list[Read]:
        """Return what the run of `call`, and others in the same chat, read; the oldest first.

        A caller that names no run, or is not `believed`, has read all that its consumer was given
        within the last hour.
        """
        words: dict[str, object] = {}
        if call.run:
            words["run = ?"] = call.run
        if call.chat:
            words["chat = ?"] = call.chat
        if not (believed and call.run):
            words["at > ?"] = self._now() - RECENT_S
        query = f"FROM reads WHERE consumer = ? AND ({' OR '.join(words)})"
        which = [call.consumer, *words.values()]
        with closing(self._connect()) as base:
            (count,) = base.execute(f"SELECT count(*) {query}", which).fetchone()
            rows = base.execute(
                f"SELECT origin, at, text, whole {query} ORDER BY id DESC LIMIT ?", [*which, MOST]
            ).fetchall()
        found = [Read(origin, at, text, bool(whole)) for origin, at, text, whole in rows[::-1]]
        if count > MOST:
            older = f"outside: {count - MOST} earlier texts, which are not shown"
            found.insert(0, Read(older, found[0].at, "", whole=False))
        return found

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=5)
