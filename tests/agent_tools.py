"""Keep the tools of `hearth bench agents` true: they are the broker's own verbs.

`python -m tests.agent_tools` rewrites hearth/bench/agents/tools.json; the tests of the broker
compare it. Its digest is stored with each result, so a change makes old results incomparable.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from hearth.bench.agents.tasks import TASKS, TOOLS
from hearth.catalogue.house import House
from tests.documents import shipped_house

ROOT = Path(__file__).resolve().parent.parent
for _folder in ("broker", "serving"):
    sys.path.insert(0, str(ROOT / "services" / _folder))


def tools() -> str:
    """Return the tools that the tasks show, as a model sees them in a house."""
    house = shipped_house()
    known = {**_specialists(house), **_verbs(house)}
    agents = yaml.safe_load(TASKS.read_text(encoding="utf-8"))["agents"].values()
    names = dict.fromkeys(name for agent in agents for name in agent["tools"])
    return json.dumps([known[name] for name in names], indent=1, ensure_ascii=False) + "\n"


def _specialists(house: House) -> dict[str, dict[str, Any]]:
    """Return the specialists as the SDK shows an agent that is a tool."""
    text = {"type": "string"}
    schema = {"type": "object", "properties": {"input": text}, "required": ["input"]}
    return {
        agent.name: {
            "name": agent.name,
            "description": f"{agent.title}: {agent.summary}",
            "parameters": schema,
        }
        for agent in house.agents.values()
    }


def _verbs(house: House) -> dict[str, dict[str, Any]]:
    from hearth_broker import change_verbs, free_verbs, sandbox_verbs
    from hearth_broker.config import Config
    from hearth_broker.schemas import arguments_schema

    config = Config(consumers={}, project=ROOT)
    modules = (free_verbs, sandbox_verbs, change_verbs)
    return {
        verb.name: {
            "name": verb.name,
            "description": verb.summary,
            "parameters": arguments_schema(verb),
        }
        for module in modules
        for verb in module.verbs(house, config)
    }


if __name__ == "__main__":
    TOOLS.write_text(tools(), encoding="utf-8")
    print(f"rewritten: {TOOLS}")
