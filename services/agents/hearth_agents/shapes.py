"""Answers in OpenAI's two shapes, each streamed or whole, with the steps of the run."""

import json
import secrets
import time
from collections.abc import Iterator
from typing import Any, Protocol

from hearth_agents.run import Costs, Piece, Step


class Shape(Protocol):
    """Turns a run's events into server-sent events or one whole answer."""

    def start(self) -> Iterator[bytes]:
        """Yield what precedes the first event."""

    def event(self, event: Step | Piece) -> Iterator[bytes]:
        """Yield one event."""

    def end(self, costs: Costs) -> Iterator[bytes]:
        """Yield the regular end."""

    def whole(self, events: list[Step | Piece], costs: Costs) -> dict[str, Any]:
        """Return the answer in one piece."""


def split(events: list[Step | Piece]) -> tuple[str, str, list[dict[str, Any]]]:
    """Return the answer, the lines for people about the way to it, and the steps for programs."""
    answer, thoughts, steps = "", "", []
    for event in events:
        if isinstance(event, Step):
            steps.append(event.content())
            thoughts += line_of(event)
        elif event.is_thought:
            thoughts += event.text
        else:
            answer += event.text
    return answer, thoughts, steps


def line_of(step: Step) -> str:
    """Return a step as a line for people."""
    return f"{step.text}\n"


class ChatShape:
    """/v1/chat/completions; lines about the steps are in `reasoning_content`."""

    def __init__(self, model: str, wants_usage: bool) -> None:
        self._model, self._wants_usage = model, wants_usage
        self._id = f"chatcmpl-{secrets.token_hex(12)}"
        self._created = int(time.time())

    def start(self) -> Iterator[bytes]:
        """Yield the role."""
        yield self._chunk({"role": "assistant", "content": ""})

    def event(self, event: Step | Piece) -> Iterator[bytes]:
        """Yield one chunk."""
        if isinstance(event, Step):
            hearth = {"step": event.content()}
            yield self._chunk({"reasoning_content": line_of(event)}, hearth=hearth)
        elif event.is_thought:
            yield self._chunk({"reasoning_content": event.text})
        else:
            yield self._chunk({"content": event.text})

    def end(self, costs: Costs) -> Iterator[bytes]:
        """Yield the last chunks."""
        yield self._chunk({}, finish="stop")
        if self._wants_usage:
            yield _sse(
                {**self._base("chat.completion.chunk"), "choices": [], "usage": usage(costs)}
            )
        yield b"data: [DONE]\n\n"

    def whole(self, events: list[Step | Piece], costs: Costs) -> dict[str, Any]:
        """Return a chat completion."""
        answer, thoughts, steps = split(events)
        message = {"role": "assistant", "content": answer, "reasoning_content": thoughts}
        return {
            **self._base("chat.completion"),
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": usage(costs),
            "hearth": {"steps": steps},
        }

    def _base(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._model}

    def _chunk(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _sse({**self._base("chat.completion.chunk"), "choices": [choice], **more})


class ResponsesShape:
    """/v1/responses; lines about the steps are the summary of a reasoning item."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._created = int(time.time())
        self._id, self._reasoning_id, self._message_id = (
            f"{kind}_{secrets.token_hex(12)}" for kind in ("resp", "rs", "msg")
        )
        self._number = -1
        self._events: list[Step | Piece] = []
        self._has_message = False

    def start(self) -> Iterator[bytes]:
        """Yield the response's start and the reasoning item that the steps are in."""
        response = self._response("in_progress", [], None)
        yield self._event("response.created", response=response)
        yield self._event("response.in_progress", response=response)
        item = {"id": self._reasoning_id, "type": "reasoning", "summary": []}
        yield self._event("response.output_item.added", output_index=0, item=item)
        part = {"type": "summary_text", "text": ""}
        yield self._thought("part.added", part=part)

    def event(self, event: Step | Piece) -> Iterator[bytes]:
        """Yield one event."""
        self._events.append(event)
        if isinstance(event, Step):
            hearth = {"step": event.content()}
            yield self._thought("text.delta", delta=line_of(event), hearth=hearth)
        elif event.is_thought:
            yield self._thought("text.delta", delta=event.text)
        else:
            yield from self._begin_message()
            yield self._said("output_text.delta", delta=event.text, logprobs=[])

    def end(self, costs: Costs) -> Iterator[bytes]:
        """Yield the ends of both items and of the response."""
        yield from self._begin_message()
        answer, thoughts, _ = split(self._events)
        output = self._output(self._events)
        yield self._thought("text.done", text=thoughts)
        yield self._thought("part.done", part={"type": "summary_text", "text": thoughts})
        yield self._event("response.output_item.done", output_index=0, item=output[0])
        yield self._said("output_text.done", text=answer, logprobs=[])
        yield self._said("content_part.done", part=output[1]["content"][0])
        yield self._event("response.output_item.done", output_index=1, item=output[1])
        response = self._response("completed", output, costs)
        yield self._event("response.completed", response=response)

    def whole(self, events: list[Step | Piece], costs: Costs) -> dict[str, Any]:
        """Return a response object."""
        response = self._response("completed", self._output(events), costs)
        return {**response, "hearth": {"steps": split(events)[2]}}

    def _begin_message(self) -> Iterator[bytes]:
        if self._has_message:
            return
        self._has_message = True
        item = self._message("", "in_progress") | {"content": []}
        yield self._event("response.output_item.added", output_index=1, item=item)
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        yield self._said("content_part.added", part=part)

    def _output(self, events: list[Step | Piece]) -> list[dict[str, Any]]:
        answer, thoughts, _ = split(events)
        summary = [{"type": "summary_text", "text": thoughts}]
        reasoning = {"id": self._reasoning_id, "type": "reasoning", "summary": summary}
        return [reasoning, self._message(answer, "completed")]

    def _message(self, text: str, status: str) -> dict[str, Any]:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        return {
            "id": self._message_id,
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": [part],
        }

    def _response(
        self, status: str, output: list[dict[str, Any]], costs: Costs | None
    ) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "model": self._model,
            "output": output,
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "usage": _response_usage(costs) if costs else None,
        }

    def _thought(self, kind: str, **more: Any) -> bytes:
        return self._event(
            f"response.reasoning_summary_{kind}",
            item_id=self._reasoning_id,
            output_index=0,
            summary_index=0,
            **more,
        )

    def _said(self, kind: str, **more: Any) -> bytes:
        return self._event(
            f"response.{kind}",
            item_id=self._message_id,
            output_index=1,
            content_index=0,
            **more,
        )

    def _event(self, kind: str, **more: Any) -> bytes:
        self._number += 1
        content = {"type": kind, "sequence_number": self._number, **more}
        return f"event: {kind}\n".encode() + _sse(content)


def usage(costs: Costs) -> dict[str, Any]:
    """Return what all models of the run read and wrote."""
    read = costs.tokens - costs.written
    return {
        "prompt_tokens": read,
        "completion_tokens": costs.written,
        "total_tokens": costs.tokens,
    }


def _response_usage(costs: Costs) -> dict[str, Any]:
    return {
        "input_tokens": costs.tokens - costs.written,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": costs.written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": costs.tokens,
    }


def _sse(content: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(content, ensure_ascii=False).encode() + b"\n\n"
