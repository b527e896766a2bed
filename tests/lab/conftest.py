"""One house for all tests of this folder, which run in the order of their files.

HEARTH_LAB_KEEP=1 leaves the machine, and finds it again, for who works on one of the tests.
"""

import os
from collections.abc import Iterator

import pytest

from hearth.clients.chat import Person
from tests.lab import another, chat, visitor
from tests.lab.house import House, remove

_KEEP = "HEARTH_LAB_KEEP"


@pytest.fixture(scope="session")
def house() -> Iterator[House]:
    """The house; what a run before left is removed first, and nothing is left at last."""
    if os.geteuid() != 0:
        pytest.exit("the lab needs root: say `sudo scripts/test`", returncode=1)
    keep = bool(os.environ.get(_KEEP))
    if not keep:
        remove()
    shared = House()
    yield shared
    if not keep:
        remove()
    print("\nThe lab, part by part")
    for part in shared.minutes:
        print(shared.cost(part))
    print("Figures")
    for name, value in shared.figures.items():
        print(f"{value:8.1f}  {name}", flush=True)


@pytest.fixture(scope="session")
def guest(house: House) -> str:
    """The guest that all tests share; it goes with the house."""
    with house.spending("a guest with browsers", 0.7):
        return visitor.invite(house)


@pytest.fixture(scope="session")
def other(house: House, tmp_path_factory: pytest.TempPathFactory) -> Iterator[another.Other]:
    """A second machine, bare, and a controller that reaches it by ssh; `house` keeps the ledger."""
    with house.spending("a bare machine, reached by ssh", 0.3):
        made = another.make(tmp_path_factory.mktemp("controller"))
    yield made
    if not os.environ.get(_KEEP):
        another.remove()


@pytest.fixture(scope="module")
def admin(house: House) -> Person:
    """The first account, as the house made it."""
    return chat.first(house)


@pytest.fixture(scope="module")
def child(admin: Person) -> Iterator[Person]:
    """Somebody whom the admin has added."""
    person = chat.add(admin, "Child")
    yield person
    chat.remove(admin, person)
