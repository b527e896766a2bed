"""Plays one run: the SDK's loop within the run's limits, and the wait for a person between."""

import asyncio
import contextlib
import hashlib
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any

import agents
import openai
from agents.run_config import CallModelData, ModelInputData
from agents.run_state import RunState

from hearth_agents.broker import Broker, BrokerGone, Caller, Reply, Verb, VerbRefused
from hearth_agents.config import LEADER, Config
from hearth_agents.models import MAX_BYTES, AnswerTooLong
from hearth_agents.outside import labelled
from hearth_agents.routing import choose
from hearth_agents.run import (
    CURRENT,
    END,
    Approval,
    Costs,
    Ended,
    Event,
    Piece,
    Run,
    Step,
    one_line,
)
from hearth_agents.store import Store, Waiting, described
from hearth_agents.team import Agent, Team
from hearth_agents.tools import StepHooks, tell
from hearth_serving.errors import log_unexpected

log = logging.getLogger(__name__)

POLL_S, TELL_S, HEARTBEAT_S = 2.0, 10.0, 10.0
BROKER_AWAY_S = 60
# Calls that a model makes at once; the others wait for their turn.
AT_ONCE = 4
# Of earlier answers, whose digests are kept.
ANSWERS = 20_000
_STATUS = Verb("approval_status", "", {}, "/v1/verbs/approval_status", waits=False)
_DECIDED = frozenset(["refused", "expired", "void", "done", "failed", "taken_back"])
_UNKNOWN = frozenset([400, 404, 409])
_NO_TOOLS = frozenset(["unsupported_capability", "model_not_found", "model_not_allowed"])


def _with_system(data: CallModelData[Run]) -> ModelInputData:
    """Add what the client told the agent that it talks to; specialists do not read it."""
    found, run = data.model_data, data.context
    if run is not None and run.system and data.agent.name == run.agent:
        found.instructions = f"{found.instructions}\n\n{run.system}"
    return found


_CONFIG = agents.RunConfig(
    call_model_input_filter=_with_system,
    tracing_disabled=True,
    trace_include_sensitive_data=False,
    tool_not_found_behavior="return_error_to_model",
    tool_execution=agents.ToolExecutionConfig(max_function_tool_concurrency=AT_ONCE),
)

Items = list[Any]


@dataclass(frozen=True, slots=True)
class Task:
    """What a person asked, in which chat, and of whom."""

    agent: str
    """The agent's own name, not the one it is offered under."""
    items: Items
    text: str
    keys: Sequence[str]
    """Where a waiting run of this chat is stored; the first is for a new one."""
    message: str
    """The digest of the person's last message."""
    can_wait: bool
    """Whether the client sees what happens meanwhile."""


class Player:
    """Plays runs; one for the whole server."""

    def __init__(self, config: Config, team: Team, broker: Broker, store: Store) -> None:
        self._config, self._team, self._broker, self._store = config, team, broker, store
        self._waiting: dict[str, tuple[asyncio.Task[Any], Run]] = {}
        self._answers: OrderedDict[bytes, None] = OrderedDict()

    def wrote(self, text: str) -> bool:
        """Return whether this is an answer of these agents; after a restart none is known."""
        return _digest(text) in self._answers

    def _note_answer(self, text: str) -> None:
        self._answers[_digest(text)] = None
        while len(self._answers) > ANSWERS:
            self._answers.popitem(last=False)

    async def play(self, run: Run, task: Task) -> AsyncGenerator[Event | None, None]:
        """Yield what happens until the last piece of the answer; closing this ends the run.

        None stands for a heartbeat: nothing happened for a while.
        """
        working, said = asyncio.create_task(self._work(run, task)), ""
        # After the last event, so that the reader below needs to watch the queue only.
        working.add_done_callback(lambda _: run.events.put_nowait(END))
        try:
            while True:
                try:
                    async with asyncio.timeout(HEARTBEAT_S):
                        event = await run.events.get()
                except TimeoutError:
                    yield None
                    continue
                if event is END:
                    return
                said += event.text if isinstance(event, Piece) and not event.is_thought else ""
                yield event
        finally:
            self._note_answer(said)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            if self._waiting.get(run.stored, (None, run))[0] is working:
                del self._waiting[run.stored]

    def _own(self, run: Run, key: str) -> None:
        """Let this run alone go on with what is stored; an earlier request is told so."""
        run.stored = key
        working = asyncio.current_task()
        assert working is not None  # noqa: S101 - every coroutine here runs in a task
        before, earlier = self._waiting.get(key, (working, run))
        self._waiting[key] = (working, run)
        if before is not working and not before.done():
            earlier.events.put_nowait(Piece("Continued in a newer request of the same chat."))
            before.cancel()

    async def _work(self, run: Run, task: Task) -> None:
        CURRENT.set(run)
        run.emit(
            Step(
                agent=task.agent,
                kind="handoff",
                text=f"{run.title(task.agent)} works on it",
            )
        )
        try:
            await self._run(run, task)
        except Exception as error:
            run.end = run.end or _line(error, self._config.litellm)
            if run.stored and run.is_spent:
                await self._store.delete(run.stored)
            self._end_early(run, task)

    async def _run(self, run: Run, task: Task) -> None:
        built = await self._team.build()
        agent = built.get(task.agent)
        if agent is None:
            raise run.stop(f"the agent {task.agent} could not be made; the server's log says why")
        # Now, since a later question may come without this document; before a change, again.
        with contextlib.suppress(BrokerGone, VerbRefused):
            await tell(self._broker, run, task.agent)
        waiting = await self._store.find(task.keys)
        start: Items | RunState[Any, Any] = task.items
        if waiting and waiting.agent == task.agent:
            start = await self._continued(run, task, waiting, agent) or start
        record = self._config.agents.get(task.agent)
        alias = record.alias if record and record.specialists else ""
        # A run that waited goes on as it began.
        if start is task.items and (reason := self._config.untrusted.get(alias)):
            await self._without_tools(run, task, reason)
            return
        try:
            await self._turns(run, task, agent, start)
        except openai.APIStatusError as error:
            if error.code not in _NO_TOOLS or run.costs.turns > 1:
                raise
            await self._without_tools(run, task, one_line(_status_line(error)))

    async def _turns(
        self, run: Run, task: Task, agent: Agent, start: Items | RunState[Any, Any]
    ) -> None:
        """Run the SDK's loop until an answer; between two parts of it a person decides."""
        while True:
            result = await self._once(run, agent, start)
            if not result.interruptions:
                break
            run.pause()
            state = result.to_state()
            key = task.keys[0]
            stored = state.to_json(context_serializer=lambda _: {})
            await self._store.put(Waiting(key, task.agent, task.message, stored, described(run)))
            self._own(run, key)
            if not task.can_wait:
                self._tell_waiting(run)
                return
            await self._wait(run, task.agent)
            start = self._approved(run, state)
        if run.stored:
            await self._store.delete(run.stored)
        self._end_well(run, task, str(result.final_output or ""))

    async def _once(
        self, run: Run, agent: Agent, start: Items | RunState[Any, Any]
    ) -> agents.RunResultStreaming:
        """Run the loop up to an answer or a proposal; raises Ended, or what went wrong."""
        left_s = run.limits.seconds - run.costs.seconds
        run.since_s = time.monotonic()
        result = agents.Runner.run_streamed(
            agent,
            start,
            context=run,
            # Ours ends first, with a message; it also counts what the specialists use.
            max_turns=run.limits.turns + 1,
            hooks=StepHooks(),
            run_config=_CONFIG,
        )
        try:
            async with asyncio.timeout(max(0.0, left_s)):
                # Leaving this loop, by a cancellation too, ends all that the SDK has started.
                async for event in result.stream_events():
                    if isinstance(event, agents.RawResponsesStreamEvent):
                        _forward(run, event.data)
        except TimeoutError:
            raise run.spend(f"the limit of {run.limits.seconds:g} s is reached") from None
        if run.end:
            raise Ended(run.end)
        return result

    async def _continued(
        self, run: Run, task: Task, waiting: Waiting, agent: Agent
    ) -> RunState[Any, Any] | None:
        """Return the state to go on with, or None while a person asks something else meanwhile."""
        waiting.restore(run)
        is_new = waiting.message != task.message
        open_ones = [run.approvals[call] for call in run.open_calls()]
        if is_new and not all([await self._decided(run, one, task.agent) for one in open_ones]):
            self._forget(run)
            return None
        self._own(run, waiting.key)
        context = agents.RunContextWrapper(context=run)
        try:
            state = await RunState.from_json(agent, waiting.state, context_override=context)
        except Exception as error:
            # An agent, a tool or the SDK is another one by now. It would fail at each message.
            await self._store.delete(waiting.key)
            raise run.stop(_lost_line(run, error)) from None
        if not task.can_wait and open_ones and not is_new:
            for one in open_ones:
                if not await self._decided(run, one, task.agent):
                    raise run.stop(_waiting_line(open_ones))
        await self._wait(run, task.agent)
        if is_new:
            state.add_input(task.text)
        return self._approved(run, state)

    def _approved(self, run: Run, state: RunState[Any, Any]) -> RunState[Any, Any]:
        """Let the calls that waited return what came of them; the broker alone decided that."""
        for item in state.get_interruptions():
            state.approve(item)
        run.since_s = time.monotonic()
        return state

    def _forget(self, run: Run) -> None:
        """Let a new question be a run of its own, while the stored one goes on waiting."""
        waits = ", ".join(one.summary or one.verb for one in run.approvals.values())
        run.approvals, run.outcomes = {}, {}
        run.costs, run.used, run.found = Costs(), Counter(), []
        line = f"Still waiting for a person's approval: {waits}"
        run.emit(Step(agent=LEADER, kind="waiting", text=line))

    async def _wait(self, run: Run, agent: str) -> None:
        """Wait until every change that was proposed is refused, has expired or is carried out."""
        open_calls = run.open_calls()
        tell_at_s = away_since_s = 0.0
        while open_calls:
            now_s = time.monotonic()
            tells = now_s >= tell_at_s
            for call in list(open_calls):
                approval = run.approvals[call]
                try:
                    reply = await self._status(run, approval, agent)
                    away_since_s = 0.0
                except BrokerGone as error:
                    # The change itself may restart the broker.
                    away_since_s = away_since_s or now_s
                    if now_s - away_since_s > BROKER_AWAY_S:
                        line = f"{error}; write again to go on waiting"
                        raise run.stop(line) from None
                    if tells:
                        run.emit(_waiting_step(agent, approval, str(error)))
                    continue
                state = _state(reply)
                if state in _DECIDED:
                    run.outcomes[call] = _outcome(approval, state, reply)
                    run.emit(_waiting_step(agent, approval, state.replace("_", " ")))
                    open_calls.remove(call)
                elif tells:
                    run.emit(_waiting_step(agent, approval, state))
                    if not tell_at_s:
                        # Steps are folded away in a chat; this is for a person to find.
                        run.events.put_nowait(Piece(_approve_here(approval, run)))
            if tells:
                tell_at_s = now_s + TELL_S
            if open_calls:
                await asyncio.sleep(POLL_S)

    async def _decided(self, run: Run, approval: Approval, agent: str) -> bool:
        with contextlib.suppress(BrokerGone):
            return _state(await self._status(run, approval, agent)) in _DECIDED
        return False

    async def _status(self, run: Run, approval: Approval, agent: str) -> Reply:
        caller: Caller = run.caller(agent)
        try:
            return await self._broker.call(_STATUS, {"id": approval.id}, caller)
        except VerbRefused as error:
            # One that the broker does not know any more will never be carried out.
            state = "void" if error.status in _UNKNOWN else "unknown"
            return Reply(str(error), {"state": state}, error.origin)

    def _tell_waiting(self, run: Run) -> None:
        open_ones = [run.approvals[call] for call in run.open_calls()]
        line = _waiting_line(open_ones)
        run.emit(Step(agent=LEADER, kind="waiting", text=line))
        run.events.put_nowait(Piece(f"{line[0].upper()}{line[1:]}. Write again when that is done."))

    async def _without_tools(self, run: Run, task: Task, reason: str) -> None:
        """Give the task to one agent without tools: no model here can be trusted with them."""
        leads = task.agent == LEADER
        name = choose(task.text, self._config.agents) if leads else task.agent
        if name not in self._config.agents:
            raise run.stop(reason)
        line = f"{run.title(LEADER)} → {run.title(name)} by rules, without tools: {reason}"
        run.emit(Step(agent=task.agent, kind="handoff", tool=name, text=line))
        result = await self._once(run, self._team.plain(name), task.items)
        self._end_well(run, task, str(result.final_output or ""))

    def _end_well(self, run: Run, task: Task, answer: str) -> None:
        run.pause()
        if not answer.strip():
            run.end = "the model gave an empty answer"
            self._end_early(run, task)
            return
        costs = run.costs
        eur = f", {costs.eur:.4f} EUR for the cloud" if costs.eur else ""
        line = f"Done: {run.elapsed_s():.1f} s, {costs.tokens} tokens{eur}"
        run.emit(_total(run, task.agent, "answer", line))

    def _end_early(self, run: Run, task: Task) -> None:
        """Report why a run ended and what was reached."""
        run.emit(_total(run, task.agent, "limit", f"Stopped: {run.end}"))
        gap = "\n\n" if run.wrote_in else ""
        run.events.put_nowait(Piece(gap + run.reached()))


def _digest(text: str) -> bytes:
    return hashlib.sha256(" ".join(text.split()).encode()).digest()


def _forward(run: Run, event: Any) -> None:
    """Pass on what the leader of the run writes and thinks."""
    if event.type == "response.created":
        run.parts += 1
    elif event.type == "response.output_text.delta" and event.delta:
        # What is said before a call and after it are two paragraphs.
        gap = "\n\n" if run.wrote_in not in (0, run.parts) else ""
        run.wrote_in = run.parts
        run.events.put_nowait(Piece(gap + event.delta))
    elif event.type in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
        run.events.put_nowait(Piece(event.delta, is_thought=True))


def _total(run: Run, agent: str, kind: Any, text: str) -> Step:
    return Step(
        agent=agent,
        kind=kind,
        text=text,
        seconds=round(run.elapsed_s(), 3),
        tokens=run.costs.tokens,
        eur=round(run.costs.eur, 6) or None,
    )


def _waiting_line(approvals: Sequence[Approval]) -> str:
    each = "; ".join(f"{one.summary or one.verb}: {one.page}" for one in approvals)
    return f"a person must approve or refuse this on the house's page: {each}"


def _lost_line(run: Run, error: Exception) -> str:
    asked = ", ".join(one.summary or one.verb for one in run.approvals.values())
    why = one_line(str(error), 120) or type(error).__name__
    return (
        f"the run that waited here cannot go on, because the agents have changed ({why}). What a "
        f"person decides about it still holds: {asked}. Ask again to begin a new run"
    )


def _approve_here(approval: Approval, run: Run) -> str:
    gap = "\n\n" if run.wrote_in else ""
    what = approval.summary or approval.verb
    return f"{gap}Nothing is done before you approve it at {approval.page} ({what})\n\n"


def _waiting_step(agent: str, approval: Approval, state: str) -> Step:
    text = f"{approval.summary or approval.verb}: {state}"
    if state == "pending":
        text = f"Waiting for a person at {approval.page}: {approval.summary or approval.verb}"
    return Step(agent=agent, kind="waiting", tool=approval.verb, text=text)


def _state(reply: Reply) -> str:
    data = reply.data if isinstance(reply.data, dict) else {}
    return str(data.get("state", "unknown"))


def _outcome(approval: Approval, state: str, reply: Reply) -> str:
    """Return what the agent reads as the result of its call."""
    return labelled(f"{approval.verb}: {state}. {reply.text}".strip(), reply.origin)


def _line(error: BaseException, url: str) -> str:
    """Return one line for a person about what ended a run."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, AnswerTooLong):
            return f"a model's answer was longer than {MAX_BYTES >> 20} MiB and was cut"
        # The SDK wraps what a specialist raised.
        if isinstance(cause, openai.APIConnectionError):
            error = cause
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, BrokerGone | VerbRefused | Ended):
        return one_line(str(error))
    if isinstance(error, openai.APIStatusError):
        return one_line(_status_line(error))
    if isinstance(error, openai.APIConnectionError):
        return f"the models' server at {url} does not answer or broke off"
    if isinstance(error, openai.APIError | agents.AgentsException):
        return one_line(str(error)) or type(error).__name__
    log_unexpected(error if isinstance(error, Exception) else RuntimeError())
    return "an internal error; the server's log shows where"


def _status_line(error: openai.APIStatusError) -> str:
    body = error.body if isinstance(error.body, dict) else {}
    message = body.get("message") or f"HTTP {error.status_code}"
    return f"the models' server: {message}"
