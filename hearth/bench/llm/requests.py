"""The requests that every model gets, and what is measured of each answer."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from hearth.bench.accelerator import prompt as random_words
from hearth.bench.turns import PAIR_PROMPT, PAIR_TOKENS, fresh
from hearth.clients.endpoints import Endpoint, one_line
from hearth.clients.llm import Reply, ask
from hearth.clients.ollama import Counters, ask_ollama
from hearth.machine.power import PowerMeter

DIRECT, GATEWAY = "direct", "gateway"
# The three prompts that published figures are made with, and the tokens of their answers.
PROMPTS = {
    "short": (32, "What is 2 + 2? Answer in one word."),
    "reasoning": (
        256,
        "A shop sells pens at 3 for 4 euros and pads at 2.50 euros each. I buy 12 pens and 5 pads "
        "and pay with a 50 euro note. How much change do I get? Think step by step.",
    ),
    "coding": (256, "Write a Python function that returns Fibonacci numbers with memoisation."),
}
COLD, LONG, TOOL, THOUGHT, PAIR = "cold", "long", "tool", "thought", "pair"
THOUGHT_TOKENS, LONG_TOKENS, CALL_TOKENS = 1024, 32, 256
# A text of random words has about so many tokens per word in the usual vocabularies.
_TOKENS_PER_WORD = 1.3
_CITY = "Paris"
_TOOL_PROMPT = f"What is the weather in {_CITY}? Use the tool."
_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
# A whole answer in one read arrives faster than this; that does not show the model's speed.
_MIN_GENERATION_S = 0.002
_LONG_PROMPT = "Which is the longest word in this list? Answer in one word.\n\n"


@dataclass(frozen=True, slots=True)
class LlmCase:
    """One kind of request: what is asked, on which path, and by how many clients at once.

    `what` is short, reasoning or coding; long is a prompt that fills a good part of the context;
    tool wants a call; thought is reasoning while the model may think; cold is short while the
    model is not in memory (its file may be in the machine's cache); pair is the short answer that
    measures the gateway. `path` is direct (Ollama itself) or gateway (through LiteLLM).
    """

    what: str
    path: str = DIRECT
    clients: int = 1


FIELDS = (
    *("first_ms", "thought_ms", "answer_ms", "total_ms", "tokens", "tokens_per_s"),
    *("prompt_tokens", "prompt_tokens_per_s", "load_s", "together_per_s"),
)
TOTALS = ("tokens", "joules", "thought_alone", "called")


@dataclass(frozen=True, slots=True)
class LlmSample:
    """One answer; all times from the request, None where something did not happen.

    `thought_ms` is the first token of a thought, `answer_ms` of the answer itself, `first_ms` of
    either. Directly, `tokens_per_s`, `prompt_tokens_per_s` and `load_s` are Ollama's own counts;
    through the gateway, `tokens_per_s` is of the tokens after the first as they arrive.
    `together_per_s` is what all clients get. `called` is 1 where the right tool was called with
    the right argument. `joules` are those of the whole machine for this answer, idling included.
    """

    error: str = ""
    first_ms: float | None = None
    thought_ms: float | None = None
    answer_ms: float | None = None
    total_ms: float = 0.0
    tokens: int = 0
    tokens_per_s: float | None = None
    prompt_tokens: int | None = None
    prompt_tokens_per_s: float | None = None
    load_s: float | None = None
    together_per_s: float | None = None
    called: int | None = None
    joules: float | None = None

    @property
    def thought_alone(self) -> int:
        """Whether it ended before its answer started."""
        return int(not self.error and self.answer_ms is None)


@dataclass(frozen=True, slots=True)
class Request:
    """What a case sends: the text is made fresh for each call, so that no cached prompt helps."""

    text: str
    tokens: int
    thinks: bool = False
    tools: bool = False
    words: int = 0
    """So many random words follow the text."""

    @property
    def prompt(self) -> str:
        """A prompt with a start of its own."""
        return fresh(self.text + (random_words(self.words) if self.words else ""))


def request_of(what: str, long_tokens: int) -> Request:
    """Return the request of a case."""
    if what == LONG:
        words = max(1, int(long_tokens / _TOKENS_PER_WORD))
        return Request(_LONG_PROMPT, LONG_TOKENS, words=words)
    if what == TOOL:
        return Request(_TOOL_PROMPT, CALL_TOKENS, tools=True)
    if what == THOUGHT:
        return Request(PROMPTS["reasoning"][1], THOUGHT_TOKENS, thinks=True)
    if what == PAIR:
        return Request(PAIR_PROMPT, PAIR_TOKENS)
    tokens, text = PROMPTS["short" if what == COLD else what]
    return Request(text, tokens)


@dataclass(frozen=True, slots=True)
class Target:
    """A model or alias that is measured: `name` is the gateway's, `id` is Ollama's.

    `model` is the model's own name in the house, which differs from that of an alias. Without a
    card in the machine it is `cardless`.

    `quiet` says that its thinking can be turned off, and `calls` that it calls tools.
    """

    name: str
    id: str
    model: str = ""
    quiet: bool = False
    calls: bool = False
    cardless: bool = False
    context: int = 8192
    direct: Endpoint = field(default=Endpoint("direct", ""), repr=False)
    gateway: Endpoint = field(default=Endpoint("gateway", ""), repr=False)


async def send(
    client: httpx.AsyncClient, target: Target, case: LlmCase, long_tokens: int, meter: PowerMeter
) -> list[LlmSample]:
    """Send one request for each client of a case, at once; failures are in the samples."""
    request = request_of(case.what, long_tokens)
    start = time.perf_counter()
    async with meter.measured() as energy:
        calls = (_call(client, target, case, request) for _ in range(case.clients))
        samples = list(await asyncio.gather(*calls))
    together = sum(sample.tokens for sample in samples) / (time.perf_counter() - start)
    share = None if energy.total is None else energy.total / len(samples)
    return [replace(each, joules=share, together_per_s=together) for each in samples]


async def _call(
    client: httpx.AsyncClient, target: Target, case: LlmCase, request: Request
) -> LlmSample:
    messages = [{"role": "user", "content": request.prompt}]
    tools = {"tools": [_TOOL]} if request.tools else {}
    quiet = target.quiet and not request.thinks
    counters = Counters()
    # A pair compares two paths: both must be of the same interface.
    if case.path == DIRECT and case.what != PAIR:
        body: dict[str, Any] = {
            **{"model": target.id, "messages": messages, "stream": True, **tools},
            **({"think": False} if quiet else {}),
            "options": {"num_predict": request.tokens, "temperature": 0},
        }
        endpoint = target.direct
        reply, counters = await ask_ollama(client, endpoint.url, body, endpoint.call_s)
    else:
        body = {
            **{"messages": messages, "max_tokens": request.tokens, **tools},
            **({"reasoning_effort": "none"} if quiet else {}),
            "stream_options": {"include_usage": True},
        }
        endpoint = target.direct if case.path == DIRECT else target.gateway
        reply = await ask(client, endpoint, body)
        known = {"", target.name, target.model, target.id}
        if case.path == GATEWAY and not reply.error and reply.model not in known:
            reply.error = f"{one_line(reply.model)} answered instead of {target.model}"
    return sample_of(reply, counters, tools=request.tools)


def sample_of(reply: Reply, counters: Counters, *, tools: bool = False) -> LlmSample:
    """Return what was measured of one answer."""
    first_ms, answer_ms = (None if s is None else s * 1000 for s in (reply.first_s, reply.answer_s))
    if reply.error or first_ms is None or reply.first_s is None:
        error = reply.error or "an answer without a single token"
        return LlmSample(error, total_ms=reply.total_s * 1000)
    tokens = counters.tokens or (reply.tokens if reply.tokens is not None else reply.pieces)
    took_s = reply.last_s - reply.first_s
    arrived = (tokens - 1) / took_s if took_s >= _MIN_GENERATION_S else None
    return LlmSample(
        first_ms=first_ms,
        thought_ms=first_ms if reply.thought else None,
        answer_ms=answer_ms,
        total_ms=reply.total_s * 1000,
        tokens=tokens,
        tokens_per_s=counters.tokens_per_s or arrived,
        prompt_tokens=counters.prompt_tokens or reply.prompt_tokens,
        prompt_tokens_per_s=counters.prompt_tokens_per_s,
        load_s=counters.load_s or None,
        called=int(_called(reply)) if tools else None,
    )


def _called(reply: Reply) -> bool:
    """Return whether exactly the right tool was called, with the city."""
    if len(reply.calls) != 1:
        return False
    function: Mapping[str, Any] = reply.calls[0]["function"]
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        return False
    city = arguments.get("city") if isinstance(arguments, dict) else None
    return function["name"] == _TOOL["function"]["name"] and _CITY in str(city)
