"""
title: Agent Team by pipeline
description: The house's team of agents, through the pipelines server.
"""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from hearth_pipelines import ask_agent


class Pipeline:
    """Passes a chat on to the agents' server, and its steps and answer back."""

    class Valves(BaseModel):
        """Settings for the inventory (`pipelines_valves`): `agent-team`, or one of its agents."""

        agent: str = "agent-team"

    def __init__(self) -> None:
        self.name = "Agent Team by pipeline"
        self.valves = self.Valves()

    def pipe(
        self,
        user_message: str,
        model_id: str,
        messages: list[dict[str, Any]],
        body: dict[str, Any],
    ) -> Iterator[dict[str, Any] | str]:
        """Yield each step and piece of the answer as it arrives."""
        for event in ask_agent(self.valves.agent, messages, body):
            for choice in event.get("choices", [])[:1]:
                delta = choice.get("delta") or {}
                if body.get("stream") and delta:
                    yield event
                elif not body.get("stream") and delta.get("content"):
                    yield delta["content"]
