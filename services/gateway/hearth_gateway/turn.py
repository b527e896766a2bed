"""One request on its way: what is asked, where the answer goes, and what the log says of it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

from hearth_gateway.answer import Answer
from hearth_gateway.call import Scope
from hearth_gateway.settings import Name
from hearth_gateway.upload import Upload


@dataclass(slots=True)
class Story:
    """What one request's line in the log says."""

    path: str
    consumer: str = "-"
    name: str = "-"
    member: str = "-"
    tried: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    first: float | None = None
    end: str = "done"

    def line(self, status: int) -> str:
        """Return the line; names are quoted, for a caller may write anything into `model`."""
        first = f"{(self.first - self.started) * 1000:.0f}" if self.first else "-"
        total = (time.monotonic() - self.started) * 1000
        return (
            f"consumer={self.consumer} alias={json.dumps(self.name)} member={self.member} "
            f"status={status} end={self.end} first_ms={first} total_ms={total:.0f} "
            f"tried={','.join(self.tried) or '-'} path={self.path}"
        )


@dataclass(frozen=True, slots=True)
class Turn:
    """One request whose key and name are known: what is asked, and where the answer goes.

    What is asked is the `body`, or a recording.
    """

    name: Name
    body: dict[str, Any] | Upload
    scope: Scope
    answer: Answer
    story: Story
