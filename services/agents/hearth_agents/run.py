"""One run: whose it is, what it has cost, when it must end, and what it reports as it happens."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from hearth_agents.broker import Caller
from hearth_agents.brought import Brought
from hearth_agents.config import Limits, Price
from hearth_agents.outside import HOUSE

Kind = Literal["handoff", "return", "tool", "answer", "limit", "waiting"]

SAME_CALL_WARN, SAME_CALL_END = 3, 6
_LINE_CHARS, _VALUE_CHARS, _FOUND = 240, 200, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that happened, for people (`text`) and for programs (the rest)."""

    agent: str
    kind: Kind
    text: str
    tool: str = ""
    arguments: Mapping[str, Any] | None = None
    seconds: float | None = None
    tokens: int | None = None
    eur: float | None = None

    def content(self) -> dict[str, Any]:
        """Return what programs read: every field that is known."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "")}


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the answer, or of the model's thoughts."""

    text: str
    is_thought: bool = False


Event = Step | Piece
END = Piece("")
"""The last event of a run."""


class Ended(Exception):
    """The run must end now; `run.end` says why."""


@dataclass(frozen=True, slots=True)
class Approval:
    """A change that waits for a person; the broker knows its state."""

    id: str
    page: str
    summary: str
    verb: str
    expires_in_s: float


@dataclass(slots=True)
class Costs:
    """What the run has used; stored with a run that waits."""

    turns: int = 0
    tool_calls: int = 0
    tokens: int = 0
    written: int = 0
    """Those of the tokens that models wrote."""
    eur: float = 0.0
    seconds: float = 0.0
    """The time of the parts that have ended; a person's time to decide is in none."""


@dataclass(slots=True)
class Run:
    """The state that the agents of one run share; the SDK carries it as its context."""

    consumer: str
    agent: str
    """The agent that the person talks to, by its own name."""
    id: str
    chat: str
    titles: Mapping[str, str]
    """What people call each agent, by name."""
    limits: Limits
    prices: Mapping[str, Price]
    person: str = ""
    """Who asks, by the name of an account in the chat."""
    system: str = ""
    """What the client told that agent beside its instructions."""
    brought: list[Brought] = field(default_factory=list)
    """What others wrote in the conversation, until the broker knows it."""
    costs: Costs = field(default_factory=Costs)
    parts: int = 0
    """How many answers of that agent's model have begun."""
    wrote_in: int = 0
    """The last of these that wrote anything for the person."""
    end: str = ""
    """Why the run was ended before its answer, in one line."""
    approvals: dict[str, Approval] = field(default_factory=dict)
    """Changes that wait, by the id of the tool call that proposed them."""
    outcomes: dict[str, str] = field(default_factory=dict)
    """What came of them, once decided."""
    is_spent: bool = False
    """Whether a limit ended it: then trying again would end at once."""
    stored: str = ""
    """Where this run is stored, once it has waited."""
    replies: dict[str, str] = field(default_factory=dict)
    """What the model reads of a change that the broker refused, by the id of the call."""
    read: dict[str, set[str]] = field(default_factory=dict)
    """Where each agent's texts from outside came from."""
    used: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)
    """The latest results, for a run that ends early."""
    events: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)
    same_calls: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    started: dict[str, tuple[float, int, float]] = field(default_factory=dict)
    since_s: float = field(default_factory=time.monotonic)

    def emit(self, step: Step) -> None:
        """Report a step."""
        self.events.put_nowait(step)

    def open_calls(self) -> list[str]:
        """Return the ids of the calls whose changes are not decided."""
        return [call for call in self.approvals if call not in self.outcomes]

    def stop(self, reason: str) -> Ended:
        """Note why the run ends, and return the exception to raise."""
        self.end = self.end or reason
        return Ended(self.end)

    def spend(self, reason: str) -> Ended:
        """Note the limit that ends the run, and return the exception to raise."""
        self.is_spent = True
        return self.stop(reason)

    def title(self, name: str) -> str:
        """Return what people call an agent or a tool."""
        return self.titles.get(name, name)

    def caller(self, agent: str) -> Caller:
        """Return on whose behalf `agent` calls the broker."""
        return Caller(agent, self.id, self.chat, self.consumer, self.person)

    def begin_turn(self) -> None:
        """Count a model's turn; raises Ended beyond the limit."""
        if self.costs.turns >= self.limits.turns:
            raise self.spend(f"the limit of {self.limits.turns} turns is reached")
        # Answers that broke off were counted without an end.
        self._check_costs()
        self.costs.turns += 1

    def begin_call(self, agent: str, tool: str, arguments: str) -> int:
        """Count a tool's call; return how often the same one was made; raises Ended."""
        if self.costs.tool_calls >= self.limits.tool_calls:
            raise self.spend(f"the limit of {self.limits.tool_calls} tool calls is reached")
        self.costs.tool_calls += 1
        self.used[tool] += 1
        self.same_calls[agent, tool, arguments] += 1
        count = self.same_calls[agent, tool, arguments]
        if count >= SAME_CALL_END:
            line = f"{self.title(agent)} called {tool} {count} times with the same arguments"
            raise self.spend(line)
        return count

    def charge(self, member: str, read: int, written: int) -> None:
        """Add a model's tokens and their price; raises Ended beyond a limit."""
        self.add(member, read, written)
        self._check_costs()

    def add(self, member: str, read: int, written: int) -> None:
        """Add a model's tokens and their price."""
        self.costs.tokens += read + written
        self.costs.written += written
        if price := self.prices.get(member):
            self.costs.eur += (read * price.input_eur + written * price.output_eur) / 1e6

    def _check_costs(self) -> None:
        if self.costs.tokens > self.limits.tokens:
            raise self.spend(f"the limit of {self.limits.tokens} tokens is reached")
        if self.costs.eur > self.limits.cloud_eur:
            raise self.spend(f"the limit of {self.limits.cloud_eur:g} EUR for the cloud is reached")

    def note_read(self, agent: str, origin: str) -> None:
        """Remember that an agent read something that the house did not write."""
        if origin != HOUSE:
            self.read.setdefault(agent, set()).add(origin)

    def note_found(self, who: str, text: str) -> None:
        """Remember a result, for a run that ends early."""
        if line := one_line(text):
            self.found = [*self.found, f"{who}: {line}"][-_FOUND:]

    def reached(self) -> str:
        """Return the last message of a run that ends without an answer: why, and what there is."""
        costs = self.costs
        calls = ", ".join(f"{name} {count} times" for name, count in self.used.most_common(8))
        lines = [
            f"I stopped here: {self.end}.",
            "",
            f"Reached: {costs.turns} model turns, {costs.tool_calls} tool calls"
            + (f" ({calls})" if calls else "")
            + f", {costs.tokens} tokens, {self.elapsed_s():.0f} s"
            + (f", {costs.eur:.4f} EUR" if costs.eur else "")
            + ".",
        ]
        if self.found:
            lines += ["", "The latest results:", *(f"- {line}" for line in self.found)]
        return "\n".join(lines)

    def elapsed_s(self) -> float:
        """Return the seconds of this run so far, without those of a person's decision."""
        return self.costs.seconds + time.monotonic() - self.since_s

    def pause(self) -> None:
        """Stop the clock."""
        self.costs.seconds = self.elapsed_s()
        self.since_s = time.monotonic()


CURRENT: ContextVar[Run] = ContextVar("hearth_run")
"""The run that a model is called for: the SDK gives it no context."""


def one_line(text: str, chars: int = _LINE_CHARS) -> str:
    """Return a text as one short line without control characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * chars]).split())
    return line if len(line) <= chars else line[: chars - 1] + "…"


def shown(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments for a step, each value bounded."""
    return {
        one_line(str(name), 40): value
        if isinstance(value, bool | int | float | None)
        else one_line(value if isinstance(value, str) else str(value), _VALUE_CHARS)
        for name, value in list(arguments.items())[:20]
    }
