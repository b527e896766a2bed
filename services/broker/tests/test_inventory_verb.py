"""An agent reads the file that it proposes to replace, and no other."""

from pathlib import Path
from typing import Any

import pydantic
import pytest

from hearth_broker.config import Config
from hearth_broker.free_verbs import HouseVerbs, OwnFile
from hearth_broker.verbs import Call, RefusedError
from tests.documents import shipped_house


async def read(project: Path, **arguments: Any) -> str:
    look = HouseVerbs(shipped_house(), Config(consumers={}, project=project))
    return (await look.inventory_file(Call("team"), OwnFile(**arguments))).text


async def test_it_returns_the_houses_own_file_or_the_shipped_one(tmp_path: Path) -> None:
    local = tmp_path / "inventory/local"
    local.mkdir(parents=True)
    (local.parent / "services.yml").write_text("services: {}\n")
    assert await read(tmp_path, file="services.yml") == ""
    (local / "services.yml").write_text("services: {ollama: {gpu: none}}\n")
    assert "ollama" in await read(tmp_path, file="services.yml")
    assert await read(tmp_path, file="services.yml", shipped=True) == "services: {}\n"


async def test_a_link_is_refused(tmp_path: Path) -> None:
    local = tmp_path / "inventory/local"
    local.mkdir(parents=True)
    (local / "models.yml").symlink_to("/etc/shadow")
    with pytest.raises(RefusedError, match="is a link"):
        await read(tmp_path, file="models.yml")


@pytest.mark.parametrize("name", ["../secrets.yml", "secrets.yml", "consumers.yml", "/etc/shadow"])
def test_no_other_file_can_be_named(name: str) -> None:
    with pytest.raises(pydantic.ValidationError):
        OwnFile.model_validate({"file": name})
