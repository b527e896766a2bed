"""The team of agents is offered to who has a key.

No task is given: a model may take minutes for it, and `hearth bench agents` measures that.
"""

import pytest

from hearth.catalogue.house import House, Service
from hearth.clients.agents import offered, site_of
from hearth.clients.endpoints import Edge

pytestmark = pytest.mark.home


def test_the_team_is_offered(team: Service, house: House, edge: Edge, key: str) -> None:
    names = offered(edge, site_of(house), key)
    assert names[:1] == ["team"], f"{team.name} offers {', '.join(names) or 'nobody'}"
