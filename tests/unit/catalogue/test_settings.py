"""A record's settings are variables of its role, and nothing else."""

import shutil
from pathlib import Path

import pytest

from hearth.catalogue import CatalogueError, derive, load

ROOT = Path(__file__).parents[3]


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """The shipped inventory without a person's settings, beside the roles."""
    folder = tmp_path / "inventory"
    folder.mkdir()
    for path in (ROOT / "inventory").glob("*.yml"):
        if path.name != "secrets.yml":
            shutil.copy(path, folder)
    (tmp_path / "roles").symlink_to(ROOT / "roles")
    (folder / "local").mkdir()
    return folder


def test_settings_reach_the_house(inventory: Path) -> None:
    (inventory / "local/services.yml").write_text(
        "services:\n  whisper:\n    settings: {whisper_unload_s: 60}\n"
        "parts:\n  dnsmasq:\n    settings: {dnsmasq_denied_names: [mask.icloud.com]}\n"
    )
    house = derive(load(inventory), frozenset())
    assert house.services["whisper"].settings == {"whisper_unload_s": 60}
    assert house.parts["dnsmasq"].settings == {"dnsmasq_denied_names": ["mask.icloud.com"]}


def test_a_variable_that_the_role_does_not_have_is_refused(inventory: Path) -> None:
    (inventory / "local/services.yml").write_text(
        "services:\n  whisper:\n    settings:\n      whisper_unloads_s: 60\n"
    )
    with pytest.raises(CatalogueError) as refused:
        load(inventory)
    assert str(refused.value).splitlines()[-1] == (
        "inventory/local/services.yml:4: whisper.settings has no variable whisper_unloads_s; "
        "did you mean whisper_unload_s?"
    )
