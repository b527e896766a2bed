"""Who gets a task when no model can lead the team: rules instead of a model's choice."""

import re
from collections.abc import Mapping

from hearth_agents.config import LEADER, AgentRecord

_WORD = re.compile(r"[^\W\d_]{3,}")


def choose(task: str, records: Mapping[str, AgentRecord]) -> str:
    """Return the specialist with the most of its words in the task; the first one of a tie.

    Without `words`, a specialist is found by the words of its summary and title.
    """
    given = set(_words(task))
    names = records[LEADER].specialists or (LEADER,)

    def matches(name: str) -> int:
        record = records[name]
        own = record.words or _words(f"{record.title} {record.summary}")
        return len(given & {word.lower() for word in own})

    return max(names, key=matches)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]
