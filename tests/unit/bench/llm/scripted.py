"""An Ollama and a LiteLLM whose answers the test writes, as one HTTP transport."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from hearth.bench.accelerator import GPU_PROVEN, Proof
from hearth.bench.llm.journal import Journal, open_journal
from hearth.bench.llm.report import Expected
from hearth.bench.llm.requests import Target
from hearth.bench.llm.run import LlmBench, LlmPlan, head_of
from hearth.clients.endpoints import Endpoint
from hearth.clients.llm import json_caller
from hearth.clients.models import key_of
from hearth.machine.power import PowerMeter

OLLAMA, LITELLM = "http://ollama", "http://litellm"
GIB = 2**30
SMALL = LlmPlan(runs=2, clients=(2,), long_tokens=130, pairs=3)


def proven(model: str) -> Proof:
    return Proof(model, GPU_PROVEN, "reads 4 times as fast", 4.0, 400.0, 100.0, 3, 100)


@dataclass
class Servers:
    """Keeps models in memory as Ollama does; generates 20 tokens in a second, by its counters."""

    requests: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    """Host, path and body of each request that generates."""
    loaded: set[str] = field(default_factory=set)
    fail_at: dict[int, int] = field(default_factory=dict)
    """Status by the number of the request."""
    stall_at: int = 0
    """The number of the request that is answered only once the run was cancelled."""
    stalled: asyncio.Event = field(default_factory=asyncio.Event)
    broken: frozenset[str] = frozenset()
    thinking: bool = False
    vram: int = 4 * GIB
    answers_as: str = ""
    call: str = '{"city": "Paris"}'

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(self.handle))

    async def handle(self, request: httpx.Request) -> httpx.Response:
        path, body = request.url.path, json.loads(request.content or b"{}")
        if path == "/api/ps":
            return httpx.Response(200, json={"models": [self.entry(one) for one in self.loaded]})
        if path == "/api/generate":
            assert body["keep_alive"] == 0
            self.loaded.discard(key_of(body["model"]))
            return httpx.Response(200, json={"done": True})
        self.requests.append((str(request.url.host), path, body))
        if len(self.requests) == self.stall_at:
            self.stalled.set()
            await asyncio.Event().wait()
        if status := self.fail_at.get(len(self.requests)):
            return httpx.Response(status, json={"error": "broken on purpose"})
        if body["model"] in self.broken:
            return httpx.Response(500, json={"error": "it cannot be loaded"})
        cold = key_of(body["model"]) not in self.loaded
        self.loaded.add(key_of(body["model"]))
        lines = self.native(body, cold) if path == "/api/chat" else self.openai(body)
        return httpx.Response(200, content="".join(lines).encode())

    def entry(self, name: str) -> dict[str, Any]:
        details = {"quantization_level": "Q4_K_M", "parameter_size": "7.6B"}
        return {
            **{"name": name, "size": 5 * GIB, "size_vram": self.vram, "digest": "abc"},
            **{"context_length": 4096, "details": details},
        }

    def native(self, body: dict[str, Any], cold: bool) -> Iterator[str]:
        def event(**message: Any) -> str:
            return json.dumps({"model": body["model"], "message": message, "done": False}) + "\n"

        if self.thinking and body.get("think") is not False:
            yield event(thinking="Hm.")
        if "tools" in body:
            yield event(tool_calls=[self.tool_call()])
        else:
            yield event(content="A ")
            yield event(content="word.")
        counted = {
            "prompt_eval_count": 130,
            "prompt_eval_cached_count": 30,
            "prompt_eval_duration": 500_000_000,
            "eval_count": 20,
            "eval_duration": 1_000_000_000,
            "load_duration": 2_000_000_000 if cold else 1_000,
        }
        yield json.dumps({"model": body["model"], "done": True, "done_reason": "stop"} | counted)

    def tool_call(self) -> dict[str, Any]:
        return {"function": {"name": "get_weather", "arguments": json.loads(self.call)}}

    def openai(self, body: dict[str, Any]) -> Iterator[str]:
        model = self.answers_as or body["model"]
        delta: dict[str, Any] = {"content": "A word."}
        if "tools" in body:
            function = {"name": "get_weather", "arguments": self.call}
            delta = {"tool_calls": [{"index": 0, "id": "1", "function": function}]}
        thoughts = [{"reasoning_content": "Hm."}] if self.thinking else []
        if body.get("reasoning_effort") == "none":
            thoughts = []
        for each in [*thoughts, delta]:
            yield f"data: {json.dumps({'model': model, 'choices': [{'delta': each}]})}\n\n"
        usage = {"completion_tokens": 20, "prompt_tokens": 130}
        yield f"data: {json.dumps({'model': model, 'choices': [], 'usage': usage})}\n\n"
        yield "data: [DONE]\n\n"


def target(name: str, **more: Any) -> Target:
    return Target(
        name,
        f"{name}:latest",
        name,
        direct=Endpoint("direct", OLLAMA, f"{name}:latest"),
        gateway=Endpoint("gateway", LITELLM, name, "key"),
        **more,
    )


def journal_of(path: Path, plan: LlmPlan, targets: list[Target], **more: Any) -> Journal:
    return open_journal(path, head_of(plan, targets, {"ollama": "0.35.0"}), **more)


def bench_of(
    servers: Servers,
    path: Path,
    targets: list[Target],
    plan: LlmPlan = SMALL,
    expected: Expected | None = None,
    **more: Any,
) -> LlmBench:
    """Return a run that goes on with what the file has."""
    client = servers.client()

    async def prove(one: Target) -> Proof:
        return proven(one.id)

    return LlmBench(
        plan,
        targets,
        journal_of(path, plan, targets),
        client,
        ollama=lambda one: json_caller(client, one.direct.url),
        prove=prove,
        expect=lambda one, loaded: {"hearth": expected} if expected else {},
        meter=PowerMeter({}, {}),
        **more,
    )
