"""The tools of `hearth bench agents` are the broker's verbs, and the agents' are the house's."""

from hearth.bench.agents.tasks import TOOLS, all_tasks
from tests.agent_tools import tools
from tests.documents import shipped_house


def test_the_bench_shows_the_verbs_as_they_are() -> None:
    assert TOOLS.read_text(encoding="utf-8") == tools(), "run: python -m tests.agent_tools"


def test_each_agent_of_the_bench_has_the_tools_that_the_inventory_gives_it() -> None:
    agents = shipped_house().agents
    shown = {task.agent: [tool["function"]["name"] for tool in task.tools] for task in all_tasks()}
    given = {name: [*agent.specialists, *agent.tools] for name, agent in agents.items()}
    assert shown == given
