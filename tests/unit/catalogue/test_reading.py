"""How the files are read: what YAML means here, and where every value comes from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hearth.catalogue import CatalogueError, derive, load, suggest

BASE = Path(__file__).parents[2] / "fixtures" / "catalogue" / "base"


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    folder = tmp_path / "inventory"
    shutil.copytree(BASE, folder)
    (folder / "local").mkdir()
    return folder


def _refusal(folder: Path) -> str:
    with pytest.raises(CatalogueError) as caught:
        load(folder)
    return str(caught.value)


def test_a_missing_file_is_named(inventory: Path) -> None:
    (inventory / "aliases.yml").unlink()
    assert _refusal(inventory) == "inventory/aliases.yml:1: the file is missing; put it back"


def test_a_file_that_is_a_list_is_refused(inventory: Path) -> None:
    (inventory / "local" / "aliases.yml").write_text("- fast\n")
    assert _refusal(inventory) == (
        "inventory/local/aliases.yml:1: the file must be a mapping; start with a section name and :"
    )


def test_a_file_that_is_not_text_is_refused(inventory: Path) -> None:
    (inventory / "local" / "aliases.yml").write_bytes(b"\xff\xfe\x00")
    assert "inventory/local/aliases.yml:1: this is not YAML" in _refusal(inventory)


def test_an_empty_overlay_file_changes_nothing(inventory: Path) -> None:
    before = load(inventory)
    (inventory / "local" / "aliases.yml").write_text("---\n# nothing yet\n")
    assert load(inventory) == before


def test_the_secrets_file_is_accepted(inventory: Path) -> None:
    (inventory / "local" / "secrets.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n3132\n")
    load(inventory)


def test_the_overlay_merges_deep_and_replaces_lists(inventory: Path) -> None:
    (inventory / "local" / "services.yml").write_text(
        "services:\n  ollama:\n    health: {ready_s: 300}\n    sources: []\n"
    )
    ollama = load(inventory).services["ollama"]
    assert ollama.health.ready_s == 300
    assert ollama.health.path == "/api/version"
    assert ollama.sources == ()
    assert ollama.port == 11434


def test_places_follow_the_overlay(inventory: Path) -> None:
    (inventory / "local" / "services.yml").write_text("services:\n  ollama:\n    port: 11435\n")
    catalogue = load(inventory)
    port = catalogue.at("services", "ollama", "port")
    assert str(port) == "inventory/local/services.yml:3"
    assert str(catalogue.at("services", "ollama", "address")) == "inventory/services.yml:5"


def test_on_is_a_field_and_not_a_truth_value(inventory: Path) -> None:
    (inventory / "local" / "services.yml").write_text("services:\n  ollama:\n    on: house\n")
    assert load(inventory).services["ollama"].on == "house"


def test_words_that_old_yaml_turns_into_other_things_stay_words(inventory: Path) -> None:
    (inventory / "local" / "machines.yml").write_text(
        "machines:\n  house: {lan_interface: off, domain: no}\n"
    )
    machine = derive(load(inventory)).machine
    assert (machine.lan_interface, machine.domain) == ("off", "no")


def test_null_takes_a_field_back_to_its_default(inventory: Path) -> None:
    (inventory / "local" / "services.yml").write_text("services:\n  ollama: {gpu: null}\n")
    assert load(inventory).services["ollama"].gpu == "none"


def test_a_null_in_the_overlay_for_nothing_is_a_typo(inventory: Path) -> None:
    (inventory / "local" / "services.yml").write_text("services:\n  ollama: {gpv: null}\n")
    assert _refusal(inventory) == (
        "inventory/local/services.yml:2: gpv: null removes an entry that does not exist; "
        "did you mean gpu?"
    )


@pytest.mark.parametrize(
    ("name", "known", "answer"),
    [
        ("olama", ["litellm", "ollama"], "did you mean ollama?"),
        ("xyz", ["litellm", "ollama"], "known: litellm, ollama"),
        ("xyz", [], "none is known"),
    ],
)
def test_suggest(name: str, known: list[str], answer: str) -> None:
    assert suggest(name, known) == answer
