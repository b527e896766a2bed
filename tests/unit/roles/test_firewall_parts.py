"""The scraper alone reads the figures of parts, and a part calls only what it needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.role_data import reference_house
from tests.unit.roles.router import CONTAINER, KOKORO, LAN, OLLAMA, Router, router

RESOLVER = "10.140.30.1"
# The router's own listeners, and users: the one that it gives to all users of a house, and another.
FIGURES, PORT = 8080, 11434
PART_USER, NOBODY = "33", "65534"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="another user's connection needs root")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Router]:
    """A machine on which an instance reads a part's figures, and a part calls another instance."""
    (tmp_path / "inventory").mkdir()
    house = reference_house(tmp_path / "inventory")
    house["parts"]["node_exporter"]["metrics_port"] = FIGURES
    scrape = {"source": "kokoro", "source_address": KOKORO}
    target = {"target": "node_exporter", "target_address": RESOLVER, "port": FIGURES}
    house["flows"].append(scrape | target)
    house["parts"]["health"]["needs"] = ["ollama"]
    with router(house, tmp_path) as made:
        yield made


def knock_as(machine: Router, user: str, target: str, port: int) -> str:
    """Return what a connection of a user of the machine meets."""
    words = ("setpriv", f"--reuid={user}", "--clear-groups", "bash", "-c")
    try_it = f"timeout 2 bash -c 'exec 3<>/dev/tcp/{target}/{port}' 2>&1 && echo open || true"
    return "open" if "open" in machine.run("", *words, try_it) else "rejected"


def test_figures_of_the_machine_are_for_the_scraper_and_root(machine: Router) -> None:
    assert machine.knock(KOKORO, RESOLVER, FIGURES) == "open"
    assert machine.knock("", RESOLVER, FIGURES) == "open"
    for other in (OLLAMA, LAN, CONTAINER):
        assert machine.knock(other, RESOLVER, FIGURES) == "rejected", other
    # Another port of the machine stays closed to the scraper, too.
    assert machine.knock(KOKORO, RESOLVER, PORT) == "rejected"
    assert knock_as(machine, NOBODY, RESOLVER, FIGURES) == "rejected"
    assert knock_as(machine, NOBODY, RESOLVER, PORT) == "open"


def test_a_part_calls_what_it_needs_and_nothing_else(machine: Router) -> None:
    assert knock_as(machine, PART_USER, OLLAMA, PORT) == "open"
    assert knock_as(machine, PART_USER, KOKORO, PORT) == "rejected"
    assert knock_as(machine, NOBODY, OLLAMA, PORT) == "rejected"


def test_a_part_that_serves_is_for_who_needs_it_and_for_the_reverse_proxy(tmp_path: Path) -> None:
    (tmp_path / "inventory").mkdir()
    house = reference_house(tmp_path / "inventory")
    house["parts"]["broker"]["port"] = PORT
    need = {"source": "kokoro", "source_address": KOKORO}
    target = {"target": "broker", "target_address": RESOLVER, "port": PORT}
    house["flows"].append(need | target)
    with router(house, tmp_path) as machine:
        assert machine.knock(KOKORO, RESOLVER, PORT) == "open"
        for other in (OLLAMA, LAN, CONTAINER):
            assert machine.knock(other, RESOLVER, PORT) == "rejected", other
        # Its pages trust the login, which only the reverse proxy asks.
        assert knock_as(machine, PART_USER, RESOLVER, PORT) == "open"
        assert knock_as(machine, NOBODY, RESOLVER, PORT) == "rejected"
