"""What agents may use: the broker's verbs as tools, and specialists as tools of their leader."""

import json
import time
from typing import Any

import agents
import openai
from agents.tool_context import ToolContext

from hearth_agents.broker import Broker, BrokerGone, Verb, VerbRefused
from hearth_agents.models import GARBLED
from hearth_agents.outside import cut, labelled
from hearth_agents.run import SAME_CALL_WARN, Approval, Ended, Kind, Run, Step, one_line, shown

_SPECIALIST_CHARS = 12_000
_REPEATED = (
    "You have made this call with the same arguments before, and its result is above. "
    "Use it, try something else, or say what you found."
)


def verb_tool(broker: Broker, verb: Verb, agent: str) -> agents.FunctionTool:
    """Return a verb as a tool of `agent`; one that changes the house waits for a person."""

    async def propose(context: Any, arguments: dict[str, Any], call_id: str) -> bool:
        """Propose a change; return whether the run must now wait for its approval."""
        run: Run = context.context
        if call_id in run.outcomes or call_id in run.replies or GARBLED in arguments:
            return False
        if call_id in run.approvals:
            return True
        run.begin_call(agent, verb.name, _key(json.dumps(arguments)))
        emit_call(run, agent, verb.name, arguments)
        data, text = await _call(run, arguments, call_id)
        approval = _approval(data, verb.name)
        if approval is None:
            run.replies[call_id] = text
            return False
        run.approvals[call_id] = approval
        return True

    async def invoke(context: ToolContext[Any], raw: str) -> str:
        run: Run = context.context
        if done := run.outcomes.get(context.tool_call_id):
            return done
        if reply := run.replies.pop(context.tool_call_id, None):
            return reply
        arguments = json.loads(raw or "{}")
        if GARBLED in arguments:
            return unreadable(verb.name, arguments[GARBLED], verb.schema)
        count = run.same_calls[agent, verb.name, _key(raw)]
        if count > SAME_CALL_WARN:
            return _REPEATED
        return (await _call(run, arguments, context.tool_call_id))[1]

    async def _call(run: Run, arguments: dict[str, Any], call_id: str) -> tuple[Any, str]:
        try:
            if verb.waits:
                # A person must see what the request rests on, or it is not made.
                await tell(broker, run, agent)
            reply = await broker.call(verb, arguments, run.caller(agent))
        except VerbRefused as error:
            run.note_read(agent, error.origin)
            return None, labelled(f"{verb.name} was refused: {error}", error.origin)
        except BrokerGone as error:
            raise run.stop(str(error)) from None
        run.note_read(agent, reply.origin)
        run.note_found(verb.name, reply.text)
        text = reply.text if reply.text.strip() else json.dumps(reply.data, ensure_ascii=False)
        return reply.data, labelled(text, reply.origin)

    return agents.FunctionTool(
        name=verb.name,
        description=verb.summary,
        params_json_schema=verb.schema,
        on_invoke_tool=invoke,
        strict_json_schema=False,
        needs_approval=propose if verb.waits else False,
    )


async def tell(broker: Broker, run: Run, agent: str) -> None:
    """Tell the broker once what others wrote in the conversation; raises as its calls do."""
    if run.brought:
        await broker.report(run.brought, run.caller(agent))
        run.brought = []


def specialist_tool(
    specialist: agents.Agent[Run], title: str, summary: str, max_turns: int
) -> agents.FunctionTool:
    """Return a specialist as a tool: its answer comes back as data, with what it had read."""

    async def answer(result: Any) -> str:
        run: Run = result.context_wrapper.context
        text = str(result.final_output or "")
        run.note_found(title, text)
        read = sorted(run.read.get(specialist.name, ()))
        origin = f"{title}, another agent" + (f", who read {', '.join(read)}" if read else "")
        return labelled(cut(text, _SPECIALIST_CHARS), origin)

    return specialist.as_tool(
        tool_name=specialist.name,
        tool_description=f"{title}: {summary}" if summary else title,
        custom_output_extractor=answer,
        max_turns=max_turns,
        hooks=StepHooks(),
        failure_error_function=_specialist_failed,
    )


def _specialist_failed(context: Any, error: Exception) -> str:
    """Return what the leader reads when a specialist fails; a limit ends the whole run."""
    run: Run = context.context
    # All models are behind one server: without it the leader has no answer either.
    if run.end or isinstance(error, Ended | openai.APIConnectionError):
        raise error
    return f"The specialist failed: {one_line(str(error)) or type(error).__name__}"


class StepHooks(agents.RunHooks[Run]):
    """Reports each tool's start and end, and counts it."""

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Count the call and report it; raises Ended beyond a limit."""
        run: Run = context.context
        raw = getattr(context, "tool_arguments", "") or "{}"
        run.started[context.tool_call_id] = (time.monotonic(), run.costs.tokens, run.costs.eur)
        if context.tool_call_id in run.outcomes or context.tool_call_id in run.replies:
            return  # counted and reported when it was proposed
        run.begin_call(agent.name, tool.name, _key(raw))
        emit_call(run, agent.name, tool.name, json.loads(raw))

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
        """Report the call's end."""
        run: Run = context.context
        unknown = (time.monotonic(), run.costs.tokens, run.costs.eur)
        began_s, tokens, eur = run.started.pop(context.tool_call_id, unknown)
        seconds = round(time.monotonic() - began_s, 3)
        text = one_line(_without_marks(str(result)))
        who = run.title(agent.name)
        if tool.name in run.titles:
            used, paid = run.costs.tokens - tokens, run.costs.eur - eur
            cost = f"{seconds:.1f} s, {used} tokens" + (f", {paid:.4f} EUR" if paid else "")
            step = Step(
                agent=tool.name,
                kind="return",
                text=f"{run.title(tool.name)} → {who} ({cost}): {text}",
                seconds=seconds,
                tokens=used,
                eur=round(paid, 6) or None,
            )
        else:
            step = Step(
                agent=agent.name,
                kind="return",
                tool=tool.name,
                text=f"{who}: {tool.name} took {seconds:.1f} s: {text}",
                seconds=seconds,
            )
        run.emit(step)


def emit_call(run: Run, agent: str, tool: str, arguments: dict[str, Any]) -> None:
    """Report a call of a tool, or a hand-off to a specialist."""
    fields, who = shown(arguments), run.title(agent)
    if tool in run.titles:
        task = one_line(str(arguments.get("input", "")))
        kind: Kind = "handoff"
        line = f"{who} → {run.title(tool)}: {task}"
    else:
        words = ", ".join(f"{name}={value!r}" for name, value in fields.items())
        kind, line = "tool", f"{who}: {tool}({words})"
    run.emit(Step(agent=agent, kind=kind, tool=tool, text=line, arguments=fields))


def unreadable(name: str, raw: str, schema: dict[str, Any]) -> str:
    """Return what a model reads about arguments that are no JSON."""
    fields = ", ".join(schema.get("properties", {})) or "no fields"
    return (
        f"{name} was not called: its arguments are not valid JSON: {one_line(raw, 120)!r}. "
        f"Send one JSON object with: {fields}."
    )


def _approval(data: Any, verb: str) -> Approval | None:
    if not isinstance(data, dict) or not isinstance(data.get("approval"), str):
        return None
    seconds = data.get("expires_in_s")
    return Approval(
        id=data["approval"],
        page=str(data.get("page", "")),
        summary=one_line(str(data.get("summary", ""))),
        verb=verb,
        expires_in_s=float(seconds) if isinstance(seconds, int | float) else 900.0,
    )


def _key(raw: str) -> str:
    try:
        return json.dumps(json.loads(raw or "{}"), sort_keys=True)
    except ValueError:
        return raw


def _without_marks(text: str) -> str:
    lines = text.splitlines()
    if len(lines) > 2 and lines[0].startswith("[data "):
        lines = lines[1:-1]
    return "\n".join(lines)
