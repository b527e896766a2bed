"""Verbs that change the house: they only make a proposal, which a person approves elsewhere."""

import asyncio
import contextlib
import json
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from hearth.approvals import ApprovalError
from hearth.approvals.arguments import ARGUMENTS, FILES
from hearth.approvals.proposal import LIFE_S, MOST_READS, READS_CHARACTERS, Who
from hearth.approvals.proposal import Read as Kept
from hearth.approvals.unit import answer_apart
from hearth.catalogue.house import House

from .config import Config
from .verbs import HOUSE, Call, Read, RefusedError, Reply, Verb

# A preview runs the whole playbook in check mode.
PREVIEW_S = 300.0
_QUICK_S = 60.0
# The program that asks ends before the call does.
_GRACE_S = 10.0
# How long this machine may preview for one consumer within an hour, whatever becomes of it, and
# what each preview counts at least.
SHARE_S, LEAST_S, HOUR_S = 900.0, 20.0, 3600.0
_SUMMARIES = {
    "restart": "Ask a person to restart a service or part.",
    "start": "Ask a person to start a service that is stopped.",
    "stop": "Ask a person to stop a service.",
    "unload_model": "Ask a person to unload a model from memory.",
    "propose": "Ask a person to change the inventory of the house, e.g. to add or repair a "
    f"service. Give the whole new text of {', '.join(FILES)} of inventory/local; the answer "
    "says what is wrong with it, or where the person decides. `present: false` in a service's "
    "record removes its instance.",
}


class Ask(Protocol):
    """Makes a proposal of a request within so many seconds; raises ApprovalError."""

    def __call__(self, request: bytes, within_s: float) -> dict[str, Any]:
        """Return its ID, summary and time of expiry."""


def verbs(house: House, config: Config, ask: Ask | None = None) -> list[Verb]:
    """Return the verbs that wait for a person."""
    del house

    def apart(request: bytes, within_s: float) -> dict[str, Any]:
        return answer_apart(config.project, request, within_s)

    asker = Asker(config.home, ask or apart)
    return [
        Verb(
            name=name,
            summary=_SUMMARIES[name],
            arguments=arguments,
            kind="change",
            run=asker.verb(name),
            within_s=(PREVIEW_S if name == "propose" else _QUICK_S) + _GRACE_S,
        )
        for name, arguments in ARGUMENTS.items()
    ]


class Asker:
    """Turns calls into proposals, one after the other: each looks at the whole house.

    A preview takes minutes, so that others do not wait for it, and each consumer has a share.
    """

    def __init__(self, home: str, ask: Ask, now: Callable[[], float] = time.monotonic) -> None:
        self._home, self._ask, self._now = home, ask, now
        self._quick, self._preview = asyncio.Semaphore(1), asyncio.Semaphore(1)
        self._previewing: set[str] = set()
        self._spent: dict[str, deque[tuple[float, float]]] = defaultdict(deque)

    def verb(self, name: str) -> Callable[[Call, Any], Any]:
        """Return the function behind one verb."""
        within_s = PREVIEW_S if name == "propose" else _QUICK_S

        async def run(call: Call, arguments: Any) -> Reply:
            request = {
                "verb": name,
                "arguments": arguments.model_dump(),
                "who": asdict(_who(call)),
                "reads": [asdict(one) for one in kept(call.reads)],
            }
            try:
                turn = self._turn(call.consumer) if name == "propose" else self._quick
                async with turn:
                    answer = await asyncio.to_thread(
                        self._ask, json.dumps(request).encode(), within_s
                    )
            except ApprovalError as error:
                raise RefusedError(str(error), "" if error.outside else HOUSE) from None
            return self._reply(answer)

        return run

    @contextlib.asynccontextmanager
    async def _turn(self, consumer: str) -> AsyncIterator[None]:
        """Let a consumer have one preview at a time, and its share of an hour."""
        spent = self._spent[consumer]
        while spent and spent[0][0] < self._now() - HOUR_S:
            spent.popleft()
        if consumer in self._previewing:
            text = "a proposal of this key is being previewed: wait for its answer"
            raise RefusedError(text, HOUSE)
        if sum(seconds for _, seconds in spent) >= SHARE_S:
            minutes = int(spent[0][0] + HOUR_S - self._now()) // 60 + 1
            text = f"the previews of this key took {SHARE_S / 60:g} minutes of the last hour: "
            raise RefusedError(f"{text}wait {minutes} minutes", HOUSE)
        self._previewing.add(consumer)
        try:
            async with self._preview:
                began = self._now()
                try:
                    yield
                finally:
                    spent.append((began, max(LEAST_S, self._now() - began)))
        finally:
            self._previewing.discard(consumer)

    def _reply(self, answer: dict[str, Any]) -> Reply:
        page = f"https://{self._home}/approvals/{answer['id']}"
        left_s = max(0, int(answer["expires"] - time.time()))
        data = {
            "approval": answer["id"],
            "page": page,
            "expires_in_s": min(left_s, LIFE_S),
            "summary": answer["summary"],
        }
        text = (
            f"Proposed, and nothing is done yet: {answer['summary']}. A person decides on {page} "
            f"within {left_s // 60} minutes; approval_status tells what became of it."
        )
        return Reply(text, data)


def _who(call: Call) -> Who:
    return Who(call.consumer, call.agent, call.run, call.chat, call.client, call.person)


def kept(reads: Sequence[Read]) -> list[Kept]:
    """Return the newest reads, oldest first; older texts are cut once they are too much."""
    found: list[Kept] = []
    left = READS_CHARACTERS
    for one in reversed(reads[-MOST_READS:]):
        text = one.text[: max(left, 200)]
        left -= len(text)
        found.append(Kept(one.origin, int(one.at), text, one.whole and len(text) == len(one.text)))
    return found[::-1]
