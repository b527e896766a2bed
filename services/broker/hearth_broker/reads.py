"""What runs read from outside, kept on disk so that a restart does not make them look clean."""

import os
import sqlite3
import time
from collections.abc import Callable, Collection
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
CREATE INDEX IF NOT EXISTS by_chat ON reads (chat);
"""


class Reads:
    """The texts from outside that each consumer was given, by run and chat."""

    def __init__(
        self,
        folder: Path,
        now: Callable[[], float] = time.time,
        inside: Collection[str] = frozenset(),
    ) -> None:
        """Open the file in `folder`; consumers `inside` are believed which run and chat it is."""
        self._now, self._inside = now, sorted(inside)
        self._path = folder / FILE
        # Nobody but root reads what agents read.
        os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        with closing(self._connect()) as base:
            base.execute("PRAGMA journal_mode = WAL")
            base.executescript(_SCHEMA)

    def note(self, call: Call, origin: str, text: str, *, whole: bool = True) -> None:
        """Remember what `call` was given; the same text again takes the place of the first."""
        now = self._now()
        row = (call.consumer, call.run, call.chat, origin, text, whole)
        with closing(self._connect()) as base, base:
            # So that one text, read a hundred times, pushes out no other.
            base.execute(
                "DELETE FROM reads WHERE consumer = ? AND run = ? AND chat = ? AND origin = ? "
                "AND text = ? AND whole = ?",
                row,
            )
            base.execute(
                "INSERT INTO reads (consumer, run, chat, origin, text, whole, at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*row, now),
            )
            base.execute(
                "UPDATE reads SET text = substr(text, 1, ?), whole = 0 WHERE whole AND id IN "
                "(SELECT id FROM reads WHERE consumer = ? ORDER BY id DESC LIMIT -1 OFFSET ?)",
                (EXCERPT, call.consumer, WHOLE),
            )
            base.execute("DELETE FROM reads WHERE at < ?", (now - KEPT_S,))

    def of(self, call: Call) -> list[Read]:
        """Return what the run of `call`, and others in the same chat, read; the oldest first.

        A chat is one for all programs of the house that are believed: the chat's own tools read a
        page for one question, and the agents answer the next. A caller that names no run, or is
        not believed, has read all that its consumer was given within the last hour.
        """
        believed = call.consumer in self._inside
        words: dict[str, list[object]] = {}
        if call.run:
            words["consumer = ? AND run = ?"] = [call.consumer, call.run]
        if call.chat:
            everyone = self._inside if believed else [call.consumer]
            places = ", ".join("?" for _ in everyone)
            words[f"chat = ? AND consumer IN ({places})"] = [call.chat, *everyone]
        if not (believed and call.run):
            words["consumer = ? AND at > ?"] = [call.consumer, self._now() - RECENT_S]
        query = f"FROM reads WHERE {' OR '.join(f'({one})' for one in words)}"
        which = [value for values in words.values() for value in values]
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
