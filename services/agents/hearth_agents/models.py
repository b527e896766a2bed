"""The house's models through its gateway: counted, bounded, with tool calls that can be read."""

import json
import re
import secrets
from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import httpx2
from agents import ModelSettings
from agents.items import ModelResponse, TResponseStreamEvent
from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
from json_repair import repair_json
from openai import APIStatusError, AsyncOpenAI
from openai.types.responses import (
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputItemDoneEvent,
)

from hearth_agents.run import CURRENT

CONNECT_S = 3
# The gateway itself waits ten minutes at most.
ANSWER_S = 660
# A token's event has about 200 bytes.
MAX_BYTES = 16 * 1024 * 1024
GARBLED = "_garbled"
"""The only argument of a tool call whose arguments could not be read."""
_MAX_ARGUMENTS = 256 * 1024
_QUOTE = re.compile(r'(?<!\\)(?:\\\\)*"')
_BYTES_PER_TOKEN = 4


class AnswerTooLong(Exception):
    """A model's answer did not end within its bound."""


class _Answered:
    """What was sent for one answer, and what the transport learns about it."""

    def __init__(self, sent: Any) -> None:
        self._sent, self.member, self.received = sent, "", 0

    def sent_tokens(self) -> int:
        """Return about how many tokens the model read."""
        return len(json.dumps(self._sent, default=str)) // _BYTES_PER_TOKEN


_answered: ContextVar[_Answered] = ContextVar("hearth_answered")


class _Bounded(httpx2.AsyncByteStream):
    """A response's body, which ends with an error when it is too long."""

    def __init__(self, stream: httpx2.AsyncByteStream, answered: _Answered | None) -> None:
        self._stream, self._answered = stream, answered

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the body."""
        left = MAX_BYTES
        async for piece in self._stream:
            left -= len(piece)
            if self._answered:
                self._answered.received += len(piece)
            if left < 0:
                raise AnswerTooLong
            yield piece

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()


class _Transport(httpx2.AsyncHTTPTransport):
    """Notes which model answered, and bounds every answer."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request."""
        response = await super().handle_async_request(request)
        if answered := _answered.get(None):
            answered.member = response.headers.get("x-hearth-model", "")
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)  # noqa: S101 - an async transport's
        response.stream = _Bounded(stream, _answered.get(None))
        return response


def make_client(url: str, key: str) -> AsyncOpenAI:
    """Return a client of the gateway."""
    timeout = httpx2.Timeout(ANSWER_S, connect=CONNECT_S)
    http = httpx2.AsyncClient(transport=_Transport(), timeout=timeout, trust_env=False)
    # The gateway tries an alias's members itself; a failure here is told at once.
    return AsyncOpenAI(api_key=key, base_url=url, max_retries=0, timeout=timeout, http_client=http)


class HouseModel(OpenAIChatCompletionsModel):
    """One alias; every answer is charged to the current run."""

    def __init__(self, alias: str, client: AsyncOpenAI) -> None:
        super().__init__(alias, client, buffer_streamed_tool_calls=True)

    async def get_response(
        self, system_instructions: str | None, input: Any, *args: Any, **more: Any
    ) -> ModelResponse:
        """Return one answer; raises Ended beyond a limit of the run."""
        answered = self._begin(system_instructions, input, args, more)
        try:
            response = await super().get_response(system_instructions, input, *args, **more)
        except BaseException as error:
            # A refused request costs nothing.
            if answered.received and not isinstance(error, APIStatusError):
                self._add_broken(answered, answered.received)
            raise
        calls = _Calls()
        for item in response.output:
            calls.read(item)
        usage = response.usage
        self._charge(answered, usage.input_tokens, usage.output_tokens, response.output)
        return response

    async def stream_response(
        self,
        system_instructions: str | None,
        input: Any,
        model_settings: ModelSettings,
        *args: Any,
        **more: Any,
    ) -> AsyncIterator[TResponseStreamEvent]:
        """Yield one answer's events; raises Ended beyond a limit of the run."""
        answered = self._begin(system_instructions, input, args, more)
        calls = _Calls()
        # An agent of one's own may not ask for it, and its limits count all the same.
        counted = replace(model_settings, include_usage=True)
        chars, is_open = 0, False
        try:
            async for event in super().stream_response(
                system_instructions, input, counted, *args, **more
            ):
                is_open = True
                if isinstance(event, ResponseOutputItemDoneEvent):
                    calls.read(event.item)
                elif isinstance(event, ResponseCompletedEvent):
                    is_open = False
                    output = event.response.output
                    for item in output:
                        calls.read(item)
                    usage = event.response.usage
                    read, written = (usage.input_tokens, usage.output_tokens) if usage else (0, 0)
                    self._charge(answered, read, written, output)
                else:
                    delta = getattr(event, "delta", "")
                    chars += len(delta) if isinstance(delta, str) else 0
                yield event
        finally:
            if is_open:
                self._add_broken(answered, chars)

    def _begin(self, *sent: Any) -> _Answered:
        CURRENT.get().begin_turn()
        answered = _Answered(sent)
        _answered.set(answered)
        return answered

    def _charge(self, answered: _Answered, read: int, written: int, output: list[Any]) -> None:
        # A server that does not count; nobody reads or writes nothing.
        if not written:
            written = sum(len(item.model_dump_json()) for item in output) // _BYTES_PER_TOKEN
        read = read or answered.sent_tokens()
        CURRENT.get().charge(answered.member or str(self.model), read, written)

    def _add_broken(self, answered: _Answered, chars: int) -> None:
        """Count an answer that broke off, which was paid for as well."""
        member, read = answered.member or str(self.model), answered.sent_tokens()
        CURRENT.get().add(member, read, chars // _BYTES_PER_TOKEN)


class _Calls:
    """Makes the tool calls of one answer readable, each with an id that no other call has."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str, str], str] = {}

    def read(self, item: Any) -> None:
        """Repair a call's arguments and id in place; the same call comes in several events."""
        if not isinstance(item, ResponseFunctionToolCall) or item.call_id in self._ids.values():
            return
        item.arguments = readable_arguments(item.arguments)
        key = (item.call_id, item.name, item.arguments)
        # Some models count from 1 in every answer; the SDK takes a repeated id for a replay of
        # the earlier call and does not carry it out.
        item.call_id = self._ids.setdefault(key, f"call_{secrets.token_hex(8)}")


def readable_arguments(raw: str) -> str:
    """Return a tool call's arguments as a JSON object, repaired if a model garbled them.

    What cannot be repaired without guessing becomes an object with the one key `_garbled`.
    """
    if not raw.strip():
        return "{}"
    if (read := _object(raw)) is not None:
        return raw if isinstance(_loads(raw), dict) else json.dumps(read)
    # A text that ends inside a string was cut off: half a file must not be written as a whole.
    cut_off = len(_QUOTE.findall(raw)) % 2 == 1
    if len(raw) <= _MAX_ARGUMENTS and not cut_off and "{" in raw:
        repaired = repair_json(raw[raw.index("{") :], return_objects=True)
        if isinstance(repaired, dict) and repaired:
            return json.dumps(repaired)
    return json.dumps({GARBLED: raw[:200]})


def _object(raw: str) -> dict[str, Any] | None:
    """Return the object that a text is; some models write it as a string of JSON."""
    value = _loads(raw)
    if isinstance(value, str):
        value = _loads(value)
    return value if isinstance(value, dict) else None


def _loads(raw: str) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None
