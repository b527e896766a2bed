"""The LLM client: measures streamed answers, and calls the API of the server behind a model."""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import httpx

from hearth.catalogue.house import House, Model, Service
from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint, client_errors, one_line
from hearth.machine import compose, engine
from hearth.paths import FORM

PATH = "/v1/chat/completions"
# A whole answer in one read arrives faster than this; that does not show the model's speed.
_MIN_GENERATION_S = 0.002
CALL_S = 120.0
_MOST_BYTES = 4 << 20
_JOURNAL_S = 20
# Ollama logs one such line per device when it starts.
_DEVICE_LINE = "inference compute"
_PAIR = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)')
# The fields of a thought: LiteLLM's and Ollama's.
_THOUGHT = ("reasoning_content", "reasoning")
# Mesa's and Google's Vulkan drivers that compute on the processor.
_SOFTWARE_NAMES = ("llvmpipe", "lavapipe", "swiftshader", "softpipe")


@dataclass(frozen=True, slots=True)
class Sample:
    """One streamed answer: times in ms from the request; `error` is empty when it is complete.

    A first token is one of a thought or of the answer; `answer_ms` is of the answer's own first
    token, None without any. `tokens_per_s` counts the tokens after the first; None when it cannot
    be measured.
    """

    endpoint: str
    first_ms: float | None
    total_ms: float
    tokens: int
    tokens_per_s: float | None
    answered_by: str | None
    error: str = ""
    answer_ms: float | None = None

    @property
    def thought_alone(self) -> bool:
        """Whether it ended before its answer started."""
        return not self.error and self.answer_ms is None


def thought(message: Mapping[str, Any]) -> str:
    """Return the thought in a message or in a piece of one, as far as it has one."""
    return next((str(text) for field in _THOUGHT if (text := message.get(field))), "")


def thought_alone(model: str) -> str:
    """Return what to tell a person whose answer ended before the model had done thinking."""
    return (
        f"{model} used all its tokens for reasoning: allow more tokens, or less thinking "
        "(`reasoning_effort` of a request, `thinking` of an alias in inventory/aliases.yml)"
    )


def least_thought(model: Model) -> dict[str, str]:
    """Return the fields of a request that turn off a model's thinking, where it has any."""
    stops = "thinking" in model.capabilities and not model.always_thinks
    return {"reasoning_effort": "none"} if stops else {}


@dataclass(slots=True)
class Reply:
    """A streamed answer, put together from its events; times in s from the request.

    `tokens` and `prompt_tokens` are those that the server reports, `pieces` those that arrived.
    """

    text: str = ""
    thought: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    finish: str = ""
    models: list[str] = field(default_factory=list)
    tokens: int | None = None
    prompt_tokens: int | None = None
    pieces: int = 0
    first_s: float | None = None
    answer_s: float | None = None
    last_s: float = 0.0
    total_s: float = 0.0
    done: bool = False
    error: str = ""

    @property
    def model(self) -> str:
        """The model that the first event names."""
        return self.models[0] if self.models else ""

    def add(self, event: Mapping[str, Any], at_s: float = 0.0) -> None:
        """Add one event of OpenAI's stream."""
        if error := event.get("error"):
            self.error = one_line(error.get("message") if isinstance(error, dict) else error)
            return
        if (model := event.get("model")) and model not in self.models:
            self.models.append(model)
        usage = event.get("usage") or {}
        if (tokens := usage.get("completion_tokens")) is not None:
            self.tokens, self.prompt_tokens = int(tokens), usage.get("prompt_tokens")
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            self.finish = choice.get("finish_reason") or self.finish
            self.text += delta.get("content") or ""
            self.thought += thought(delta)
            for piece in delta.get("tool_calls") or ():
                self._add_call(piece)
            answers = bool(delta.get("content") or delta.get("tool_calls"))
            if answers or thought(delta):
                self.pieces, self.last_s = self.pieces + 1, at_s
                self.first_s = at_s if self.first_s is None else self.first_s
            if answers and self.answer_s is None:
                self.answer_s = at_s

    def add_line(self, line: str, at_s: float) -> None:
        """Add one line of the stream; one that is no event is its error."""
        text = line.removeprefix("data:").strip() if line.startswith("data:") else ""
        self.done = self.done or text == "[DONE]"
        if text in ("", "[DONE]"):
            return
        try:
            self.add(json.loads(text), at_s)
        except (ValueError, AttributeError, TypeError, KeyError, IndexError):
            self.error = f"not an answer: {text[:100]}"

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        """Add a piece of a call: the first has its name, all have parts of its arguments."""
        index, function = int(piece.get("index") or 0), piece.get("function") or {}
        while len(self.calls) <= index:
            empty = {"name": "", "arguments": ""}
            self.calls.append({"id": "", "type": "function", "function": empty})
        call = self.calls[index]
        call["id"] = piece.get("id") or call["id"]
        call["function"]["name"] += function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""


Measure = Callable[[str, int], Awaitable[Sample]]
"""Sends a prompt for at most so many tokens and measures the answer; never raises."""
JsonCall = Callable[[str, Mapping[str, Any] | None], Awaitable[dict[str, Any]]]
"""Calls Ollama's API: (path, body, or None for GET) -> its answer. Raises ClientError."""


async def ask(
    client: httpx.AsyncClient,
    endpoint: Endpoint,
    body: Mapping[str, Any],
    clock: Callable[[], float] = time.perf_counter,
) -> Reply:
    """Send one request and read its streamed answer; a failure is its `error`."""
    url, headers = endpoint.url.rstrip("/") + PATH, endpoint.authorization
    sent = {"model": endpoint.model, "temperature": 0, "stream": True, **body}
    request = client.stream("POST", url, json=sent, headers=headers, timeout=None)
    return await read_streamed(request, endpoint.call_s, Reply.add_line, clock)


async def read_streamed(
    request: AbstractAsyncContextManager[httpx.Response],
    within_s: float,
    add_line: Callable[[Reply, str, float], None],
    clock: Callable[[], float],
) -> Reply:
    """Send a request and read its lines as they come; a failure is the reply's `error`.

    `add_line` adds a line to the reply, with the seconds since the request.
    """
    reply, size, start = Reply(), 0, clock()
    try:
        # httpx bounds each read; a slow stream would outlive any of its timeouts.
        async with asyncio.timeout(within_s), request as response:
            if not response.is_success:
                text = (await response.aread()).decode("utf-8", "replace")
                reply.error = f"HTTP {response.status_code}: {one_line(text)}"
                return reply
            async for line in response.aiter_lines():
                add_line(reply, line, clock() - start)
                size += len(line)
                if size > _MOST_BYTES:
                    reply.error = f"an answer of more than {_MOST_BYTES >> 20} MiB"
                    break
    except TimeoutError:
        reply.error = f"no complete answer within {within_s:g} s"
    except httpx.HTTPError as error:
        reply.error = f"{type(error).__name__}: {error}"
    finally:
        reply.total_s = clock() - start
    reply.error = reply.error or ("" if reply.done else "the stream ended early")
    return reply


def measurer(
    client: httpx.AsyncClient,
    endpoint: Endpoint,
    clock: Callable[[], float] = time.perf_counter,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Measure:
    """Return a function that measures an endpoint over one client; `more` is in each request."""

    async def measure(prompt: str, max_tokens: int) -> Sample:
        body = {
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": max_tokens,
            "stream_options": {"include_usage": True},
            **more,
        }
        reply = await ask(client, endpoint, body, clock)
        tokens = reply.tokens if reply.tokens is not None else reply.pieces
        first_ms, speed, error = None, None, reply.error
        if reply.first_s is None:
            error = error or "an answer without a single token"
        else:
            first_ms, took_s = reply.first_s * 1000, reply.last_s - reply.first_s
            speed = (tokens - 1) / took_s if took_s >= _MIN_GENERATION_S else None
        return Sample(
            endpoint=endpoint.name,
            first_ms=first_ms,
            total_ms=reply.total_s * 1000,
            tokens=tokens,
            tokens_per_s=speed,
            answered_by=reply.models[-1] if reply.models else None,
            error=error,
            answer_ms=None if reply.answer_s is None else reply.answer_s * 1000,
        )

    return measure


def json_caller(client: httpx.AsyncClient, url: str, call_s: float = 300.0) -> JsonCall:
    """Return a function that calls Ollama's API at a URL."""

    async def call(path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        method = "GET" if body is None else "POST"
        with client_errors(f"{url}{path}", call_s):
            async with asyncio.timeout(call_s):
                response = await client.request(method, url + path, json=body, timeout=None)
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if response.status_code >= 400 or not isinstance(answer, dict):
            text = one_line(response.text)
            raise ClientError(f"Ollama's {path} answered HTTP {response.status_code}: {text}")
        return answer

    return call


def gateway_of(house: House) -> Service:
    """Return the service that routes models."""
    if gateways := house.offering("models"):
        return gateways[0]
    raise ClientError("this house has no gateway: there is nothing to compare with")


def local_model(house: House, name: str) -> Model:
    """Return a local model that generates text, or the first such member of an alias."""
    members = house.aliases[name].members if name in house.aliases else (name,)
    for member in members:
        model = house.models.get(member)
        if model is not None and model.local and model.usable and model.kind != "transcribe":
            return model
    raise ClientError(f"{name} is not a local model that generates text: see `hearth models`")


def direct_and_gateway(
    client: httpx.AsyncClient,
    house: House,
    model: Model,
    key: str,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Measure, Measure]:
    """Return what measures a model directly at its server, and through the gateway.

    `more` is in each request. Both are called from the machine over plain HTTP and by the path that
    the gateway calls, too, so that the gateway is the only difference.
    """
    server, gateway = house.services[model.service or ""], gateway_of(house)
    direct = Endpoint("direct", server.url, model.id, call_s=CALL_S)
    routed = Endpoint("gateway", gateway.url, model.name, key, call_s=CALL_S)
    return measurer(client, direct, more=more), measurer(client, routed, more=more)


def server_api(client: httpx.AsyncClient, house: House, model: Model) -> JsonCall:
    """Return what calls the API of the server that runs a model."""
    return json_caller(client, house.services[model.service or ""].url)


@dataclass(frozen=True, slots=True)
class Device:
    """A device that Ollama computes on: Ollama's name for it, the driver's name, the library."""

    number: str
    name: str
    library: str

    @property
    def processor(self) -> bool:
        """Whether it is the processor."""
        return self.library.lower() == "cpu"

    @property
    def software(self) -> bool:
        """Whether it appears as a card but is a program on the processor."""
        return any(word in self.name.lower() for word in _SOFTWARE_NAMES)

    @property
    def text(self) -> str:
        """The device as a person reads it."""
        if self.processor:
            return "the processor"
        kind = "a software device, no GPU" if self.software else f"by {self.library}"
        return f"{self.number}: {self.name}, {kind}"


def devices(journal: Iterable[str]) -> list[Device]:
    """Return the devices that the log lines of one start of Ollama name, in their order."""
    found = []
    for line in journal:
        if _DEVICE_LINE in line:
            fields = {key: value.strip('"') for key, value in _PAIR.findall(line)}
            name = fields.get("description") or fields.get("name", "")
            found.append(Device(fields.get("name", ""), name, fields.get("library", "")))
    return found


def devices_of(house: House, model: Model) -> list[Device]:
    """Return the devices that a model's server logged when it started; none for an external one."""
    service = house.services[model.service or ""]
    if not service.address:
        return []
    if FORM:
        return devices(compose.logs_of_start(service.instance))
    show = ["/usr/bin/systemctl", "show", service.unit, "--property=InvocationID", "--value"]
    run = engine.execute(service.system, show, timeout=_JOURNAL_S).stdout.strip()
    # Each start has its own ID: an earlier one may have found other devices.
    read = ["/usr/bin/journalctl", "--no-pager", "--output=cat", f"_SYSTEMD_INVOCATION_ID={run}"]
    log = engine.execute(service.system, [*read, f"--grep={_DEVICE_LINE}"], timeout=_JOURNAL_S)
    return devices(log.stdout.splitlines())
