"""Runs that wait for a person, in SQLite: they go on after a restart or a dropped connection."""

import asyncio
import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hearth_agents.run import Approval, Costs, Run

# An approval expires after minutes; its result is worth telling for a day.
KEEP_S = 24 * 3600
_SCHEMA = """
CREATE TABLE IF NOT EXISTS waiting (
    key TEXT PRIMARY KEY, agent TEXT NOT NULL, message TEXT NOT NULL,
    state TEXT NOT NULL, run TEXT NOT NULL, stored REAL NOT NULL
) WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A stored run: the SDK's state, and our own."""

    key: str
    agent: str
    message: str
    """The digest of the person's message that started it."""
    state: dict[str, Any]
    run: dict[str, Any]

    def restore(self, run: Run) -> None:
        """Give `run` what the stored one had used, read and proposed."""
        run.costs = Costs(**self.run["costs"])
        run.approvals = {call: Approval(**one) for call, one in self.run["approvals"].items()}
        run.outcomes = dict(self.run["outcomes"])
        run.read = {agent: set(origins) for agent, origins in self.run["read"].items()}
        run.used, run.found = Counter(self.run["used"]), list(self.run["found"])


def described(run: Run) -> dict[str, Any]:
    """Return what is stored of a run beside the SDK's state."""
    return {
        "costs": asdict(run.costs),
        "approvals": {call: asdict(one) for call, one in run.approvals.items()},
        "outcomes": run.outcomes,
        "read": {agent: sorted(origins) for agent, origins in run.read.items()},
        "used": dict(run.used),
        "found": run.found,
    }


class Store:
    """The file runs.db; every call opens it, so that no thread shares a connection."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Chats are private: the file is made before SQLite would, with its own mode.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        with self._open() as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute(_SCHEMA)

    async def put(self, waiting: Waiting) -> None:
        """Store a run in place of an earlier one of the same chat."""
        row = (
            waiting.key,
            waiting.agent,
            waiting.message,
            json.dumps(waiting.state),
            json.dumps(waiting.run),
            time.time(),
        )
        await asyncio.to_thread(
            self._write, "INSERT OR REPLACE INTO waiting VALUES (?, ?, ?, ?, ?, ?)", row
        )

    async def delete(self, key: str) -> None:
        """Forget a run that has ended, and all that are too old."""
        oldest = time.time() - KEEP_S
        await asyncio.to_thread(
            self._write, "DELETE FROM waiting WHERE key = ? OR stored < ?", (key, oldest)
        )

    async def find(self, keys: Sequence[str]) -> Waiting | None:
        """Return the newest run with one of these keys."""
        return await asyncio.to_thread(self._find, list(keys))

    def _find(self, keys: list[str]) -> Waiting | None:
        with self._open() as database:
            row = database.execute(
                "SELECT key, agent, message, state, run FROM waiting"
                " WHERE key IN (SELECT value FROM json_each(?)) AND stored > ?"
                " ORDER BY stored DESC LIMIT 1",
                (json.dumps(keys), time.time() - KEEP_S),
            ).fetchone()
        if row is None:
            return None
        key, agent, message, state, run = row
        return Waiting(key, agent, message, json.loads(state), json.loads(run))

    def _write(self, statement: str, values: Sequence[Any]) -> None:
        with self._open() as database:
            database.execute(statement, values)

    def _open(self) -> "_Connection":
        return _Connection(self._path)


class _Connection:
    """Commits and closes: sqlite3's own context manager leaves the connection open."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=5)

    def __enter__(self) -> sqlite3.Connection:
        return self._connection

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._connection.commit()
        self._connection.close()
