"""A whole server over real HTTP: the real SDK, a scripted provider and a fake broker."""

import asyncio
import hashlib
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "serving"))

from hearth_agents.app import AgentsState, make_app
from hearth_agents.config import Config

from .servers import FakeBroker, Provider, Script, serving

KEY, LITELLM_KEY, BROKER_KEY = "k" * 32, "m" * 32, "b" * 32
CHAT = "/v1/chat/completions"
TEAM: dict[str, Any] = {
    "team": {
        "title": "Agent Team",
        "alias": "orchestrator",
        "instructions": "You lead.",
        "specialists": ["researcher", "coder", "caretaker"],
    },
    "researcher": {
        "title": "Researcher",
        "alias": "fast",
        "tools": ["web_fetch"],
        "words": ["find", "search", "openssh"],
    },
    "coder": {
        "title": "Coder",
        "alias": "coder",
        "tools": ["run_code"],
        "words": ["script", "python", "code"],
    },
    "caretaker": {
        "title": "Caretaker",
        "alias": "local",
        "tools": ["service_status", "restart", "approval_status"],
    },
}


@dataclass
class House:
    """The server under test and what it talks to."""

    url: str
    client: httpx.AsyncClient
    provider: Provider
    broker: FakeBroker
    state: AgentsState

    async def ask(self, text: str, model: str = "agent-team", **more: Any) -> "Answer":
        """Ask in a stream."""
        return await self.send([{"role": "user", "content": text}], model, **more)

    async def send(
        self, messages: list[dict[str, Any]], model: str = "agent-team", **more: Any
    ) -> "Answer":
        """Send a conversation and read the whole stream."""
        headers = more.pop("headers", {})
        body = {"model": model, "messages": messages, "stream": True, **more}
        answer = Answer()
        async with (
            asyncio.timeout(20),
            self.client.stream("POST", CHAT, json=body, headers=headers) as response,
        ):
            assert response.status_code == 200, await response.aread()
            async for line in response.aiter_lines():
                answer.read(line)
        return answer


@dataclass
class Answer:
    """What a stream said."""

    text: str = ""
    thoughts: str = ""
    steps: list[dict[str, Any]] = field(default_factory=list)
    finish: str | None = None
    is_done: bool = False
    began_s: float = field(default_factory=time.monotonic)
    first_step_s: float | None = None

    def read(self, line: str) -> dict[str, Any] | None:
        if line == "data: [DONE]":
            self.is_done = True
        if not line.startswith("data: {"):
            return None
        event: dict[str, Any] = json.loads(line.removeprefix("data: "))
        if step := event.get("hearth", {}).get("step"):
            self.steps.append(step)
            if self.first_step_s is None:
                self.first_step_s = time.monotonic() - self.began_s
        for choice in event.get("choices", []):
            self.text += choice["delta"].get("content") or ""
            self.thoughts += choice["delta"].get("reasoning_content") or ""
            self.finish = choice["finish_reason"] or self.finish
        return event

    def kinds(self, *wanted: str) -> list[tuple[str, str]]:
        """The steps of some kinds: who, and with what."""
        return [
            (step["agent"], step.get("tool", "")) for step in self.steps if step["kind"] in wanted
        ]


Start = Callable[..., Any]


async def eventually(is_true: Callable[[], object], within_s: float = 10.0) -> float:
    """Wait for a condition; return the seconds that it took."""
    began_s = time.monotonic()
    while not is_true():
        assert time.monotonic() - began_s < within_s, "it did not happen in time"
        await asyncio.sleep(0.01)
    return time.monotonic() - began_s


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Return a function that starts a server; the last one's state is reused by the next."""
    async with AsyncExitStack() as stack:

        async def run(
            script: Script,
            *,
            team: dict[str, Any] | None = None,
            limits: dict[str, Any] | None = None,
            broker: FakeBroker | None = None,
            own: Path | None = None,
            litellm_url: str = "",
            broker_url: str = "",
            prices: dict[str, Any] | None = None,
            chats: Sequence[str] = (),
            untrusted: dict[str, str] | None = None,
        ) -> House:
            provider, fake = Provider(script), broker or FakeBroker()
            models = litellm_url or await stack.enter_async_context(serving(provider.app()))
            verbs = broker_url or await stack.enter_async_context(serving(fake.app()))
            config = Config.model_validate(
                {
                    "litellm": f"{models}/v1",
                    "broker": verbs,
                    "consumers": {"tests": hashlib.sha256(KEY.encode()).hexdigest()},
                    "agents": team or TEAM,
                    "limits": limits or {},
                    "prices": prices or {},
                    "chats": list(chats),
                    "untrusted": untrusted or {},
                }
            )
            state, app = make_app(config, LITELLM_KEY, BROKER_KEY, tmp_path, own)
            url = await stack.enter_async_context(serving(app))
            client = await stack.enter_async_context(
                httpx.AsyncClient(
                    base_url=url,
                    headers={"authorization": f"Bearer {KEY}"},
                    timeout=30,
                    trust_env=False,
                )
            )
            return House(url, client, provider, fake, state)

        yield run
