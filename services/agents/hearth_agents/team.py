"""The agents of the configuration, and those of the house's own Python files."""

import importlib.util
import logging
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import agents
from openai import AsyncOpenAI

from hearth_agents.broker import Broker, BrokerGone, Verb
from hearth_agents.config import LEADER, PREFIX, AgentRecord, Config
from hearth_agents.models import HouseModel
from hearth_agents.outside import RULE
from hearth_agents.run import Run, one_line
from hearth_agents.tools import specialist_tool, verb_tool

log = logging.getLogger(__name__)

# How long the broker's description of its verbs is used.
_FRESH_S = 60
_LEADER_RULE = (
    "You lead a team. Give each part of the task to the specialist whose tool fits, with all that "
    "it needs to know: it sees nothing of this conversation but your text. Answer the person "
    "yourself, in the language of the question, from what the specialists found. Do not call a "
    "specialist for what needs none."
)

Agent: TypeAlias = agents.Agent[Run]


class Workshop:
    """What an agent of one's own is made from: the house's models, tools and specialists."""

    def __init__(
        self, config: Config, client: AsyncOpenAI, broker: Broker, verbs: Mapping[str, Verb]
    ) -> None:
        self._config, self._client, self._broker, self._verbs = config, client, broker, verbs
        self._made: dict[str, Agent] = {}

    def model(self, alias: str) -> agents.Model:
        """Return a model of the house by its alias."""
        return HouseModel(alias, self._client)

    def tools(self, agent: str, *names: str) -> list[agents.Tool]:
        """Return the broker's verbs with these names as tools of `agent`.

        One that the broker does not offer to this service is left out, and the log names it.
        """
        if missing := [name for name in names if name not in self._verbs]:
            log.warning("%s: the broker offers no %s", agent, ", ".join(missing))
        return [
            verb_tool(self._broker, self._verbs[name], agent)
            for name in names
            if name in self._verbs
        ]

    def specialist(self, name: str) -> agents.Tool:
        """Return an agent of inventory/agents.yml as a tool."""
        record = self._config.agents[name]
        return specialist_tool(
            self.agent(name), _title(name, record), record.summary, self._config.limits.turns
        )

    def agent(self, name: str) -> Agent:
        """Return an agent of inventory/agents.yml."""
        if name not in self._made:
            record = self._config.agents[name]
            tools = [
                *(self.specialist(other) for other in record.specialists),
                *self.tools(name, *record.tools),
            ]
            rule = [_LEADER_RULE] if record.specialists else []
            self._made[name] = agents.Agent(
                name=name,
                instructions="\n\n".join([*rule, record.instructions, RULE]).strip(),
                model=self.model(record.alias),
                model_settings=agents.ModelSettings(include_usage=True),
                tools=tools,
            )
        return self._made[name]


class Team:
    """Makes the agents when the broker's verbs change, and keeps them meanwhile."""

    def __init__(
        self, config: Config, client: AsyncOpenAI, broker: Broker, own: Path | None
    ) -> None:
        self._config, self._client, self._broker = config, client, broker
        self._own = _load_own(own) if own else {}
        self._verbs: Mapping[str, Verb] | None = None
        self._built: Mapping[str, Agent] | None = None
        self._until_s = 0.0

    @property
    def offered(self) -> dict[str, str]:
        """The models' IDs under which agents are offered, the team first, with what a chat shows.

        A chat has one list for agents and aliases, one of which may have the same name.
        """
        titles = self.titles
        shown = {LEADER: titles.pop(LEADER)}
        shown |= {name: f"Agent: {title}" for name, title in titles.items()}
        return {f"{PREFIX}{name}": title for name, title in shown.items()}

    @property
    def titles(self) -> dict[str, str]:
        """What people call each agent."""
        titles = {name: _title(name, record) for name, record in self._config.agents.items()}
        own = (name for name in self._own if name not in titles)
        return titles | {name: name.replace("_", " ").capitalize() for name in own}

    @property
    def summaries(self) -> dict[str, str]:
        """What each agent offered is for, by its model's ID; empty where a file does not say it."""
        known = {name: record.summary for name, record in self._config.agents.items()}
        own = {name: _summary(make) for name, make in self._own.items()}
        return {f"{PREFIX}{name}": summary for name, summary in (own | known).items()}

    async def build(self) -> Mapping[str, Agent]:
        """Return the agents by name; raises BrokerGone if the broker never described its verbs."""
        if self._built is None or time.monotonic() > self._until_s:
            try:
                verbs = await self._broker.verbs() if self._wants_tools() else {}
            except BrokerGone:
                if self._built is None:
                    raise
                return self._built  # the first call of a tool reports it
            if self._built is None or verbs != self._verbs:
                self._built, self._verbs = self._make(verbs), verbs
            self._until_s = time.monotonic() + _FRESH_S
        return self._built

    def plain(self, name: str) -> Agent:
        """Return an agent of the configuration without any tool."""
        record = self._config.agents[name]
        return agents.Agent(
            name=name,
            instructions=f"{record.instructions}\n\n{RULE}".strip(),
            model=HouseModel(record.alias, self._client),
            model_settings=agents.ModelSettings(include_usage=True),
        )

    def _wants_tools(self) -> bool:
        return bool(self._own) or any(record.tools for record in self._config.agents.values())

    def _make(self, verbs: Mapping[str, Verb]) -> dict[str, Agent]:
        workshop = Workshop(self._config, self._client, self._broker, verbs)
        made = {name: workshop.agent(name) for name in self._config.agents}
        for name, make in self._own.items():
            try:
                # Steps, logs and the broker call it by the name that people chose.
                made[name] = make(workshop).clone(name=name)
            except Exception as error:
                log.warning("%s.py: %s: %s", name, type(error).__name__, one_line(str(error)))
        return made


def _title(name: str, record: AgentRecord) -> str:
    return record.title or name.replace("_", " ").capitalize()


def _summary(make: Any) -> str:
    """Return the first line of a file's own text about itself."""
    module = sys.modules.get(getattr(make, "__module__", ""))
    text = getattr(module, "__doc__", None) or ""
    return str(text).strip().partition("\n")[0]


def _load_own(folder: Path) -> dict[str, Any]:
    """Return the function `agent` of each file; a file with an error is named in the log."""
    found = {}
    for path in sorted(folder.glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"hearth_own_agents.{path.stem}", path)
        assert spec is not None  # noqa: S101 - a file that ends in .py has a loader
        assert spec.loader is not None  # noqa: S101
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
            found[path.stem] = module.agent
        except Exception as error:
            log.warning("%s is left out: %s: %s", path, type(error).__name__, one_line(str(error)))
    return found
