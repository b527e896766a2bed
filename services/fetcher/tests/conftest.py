"""Give each test a world, and the readers' processes the libraries that they need."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.environments import locked_packages

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "serving"))

from .world import World


@pytest.fixture(scope="session", autouse=True)
def readers() -> Iterator[None]:
    """Install what the shared environment does not have, for processes only."""
    services = Path(__file__).parents[2]
    folders = [
        services / "fetcher",
        services / "serving",
        locked_packages("fetcher", "--compile-bytecode"),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, folders)))
        yield


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.end()
