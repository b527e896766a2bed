"""The reference inventory and the house that follows from it."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import FrameType

import pytest

from hearth.catalogue import House, derive, load, memory_shortage
from hearth.catalogue.records import FILES

ROOT = Path(__file__).parents[3]
BASE = ROOT / "tests" / "fixtures" / "catalogue" / "base"


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """The inventory as it is committed, without anybody's own `local` folder."""
    folder = tmp_path / "inventory"
    folder.mkdir()
    for name in FILES:
        shutil.copy(ROOT / "inventory" / f"{name}.yml", folder)
    return folder


@pytest.fixture
def house(inventory: Path) -> House:
    return derive(load(inventory))


@pytest.fixture
def without_a_card(inventory: Path) -> House:
    return derive(load(inventory), absent=frozenset({"kokoro_gpu"}))


def test_the_reference_house_has_its_services_in_order(without_a_card: House) -> None:
    house = without_a_card
    assert list(house.services) == [
        "ollama",
        "kokoro",
        "whisper",
        "litellm",
        "pipelines",
        "open_webui",
    ]
    assert [(flow.source, flow.target, flow.port) for flow in house.flows] == [
        ("litellm", "ollama", 11434),
        ("litellm", "whisper", 8000),
        ("pipelines", "litellm", 4000),
        ("open_webui", "litellm", 4000),
        ("open_webui", "kokoro", 8880),
        ("open_webui", "pipelines", 9099),
    ]
    # Who speaks is not called through LiteLLM, so the two have nothing to say to each other.
    called = {(flow.source, flow.target) for flow in house.flows}
    assert {(flow.source, flow.target) for flow in house.forbidden if flow.port != 10300} == {
        (source, target)
        for source in house.services
        for target in house.services
        if source != target and (source, target) not in called
    }
    # The satellites' port is for satellites, not even for who may call its server otherwise.
    assert {flow.source for flow in house.forbidden if flow.port == 10300} == {
        "ollama",
        "kokoro",
        "litellm",
        "pipelines",
        "open_webui",
    }
    assert set(house.published_ports) == {
        ("10.140.30.12", 4000),
        ("10.140.30.13", 8880),
        ("10.140.30.16", 8000),
        ("10.140.30.17", 8080),
    }
    assert [(site.fqdn, site.auth) for site in house.sites] == [
        ("kokoro-stream.lan", "key"),
        ("kokoro-web.lan", "house"),
        ("whisper.lan", "house"),
        ("llm.lan", "key"),
        ("chat.lan", "own"),
        ("home.lan", "house"),
        ("trust.lan", "lan"),
    ]
    assert [site.fqdn for site in house.sites if site.plain] == ["trust.lan"]


def test_what_hears_is_given_the_models_of_aliases_and_others_for_who_asks(house: House) -> None:
    given = house.services["whisper"].weights
    assert [model.name for model in given if model.wanted] == ["distil-medium.en"]
    assert [model.name for model in given if not model.wanted] == [
        "tiny", "tiny.en", "base", "base.en", "small", "small.en", "medium", "large-v3",
    ]  # fmt: skip
    for model in given:
        assert {"model.bin", "config.json", "tokenizer.json"} < set(model.files)
        assert len({"vocabulary.txt", "vocabulary.json"} & set(model.files)) == 1
        sources = [house.sources[source] for source in model.files.values()]
        # All of one model, and of one version of it.
        assert len({source.url.rpartition("/")[0] for source in sources}) == 1
        assert f"whisper-{model.name.removeprefix('distil-')}/" in sources[0].url
        size = sum(source.size or 0 for source in sources)
        assert house.models[model.name].download_bytes == pytest.approx(size, rel=0.02)


def test_a_house_without_a_card_neither_has_nor_misses_what_waits_for_one(
    without_a_card: House, house: House
) -> None:
    assert house.services.keys() - without_a_card.services.keys() == {"kokoro_gpu"}
    assert {site.fqdn for site in house.sites} - {site.fqdn for site in without_a_card.sites} == {
        "kokoro-gpu.lan"
    }
    assert (house.services["kokoro_gpu"].role, house.services["kokoro_gpu"].gpu) == (
        "kokoro",
        "cuda",
    )
    # Who may use it is written down for the day when there is a card.
    assert "kokoro_gpu" in without_a_card.consumers["household"].services
    assert "kokoro" not in without_a_card.consumers["guest"].services


def test_ollama_gives_away_nothing_that_changes_models(house: House) -> None:
    paths = house.services["ollama"].paths
    for path in ("create", "push", "pull", "delete", "copy", "blobs"):
        assert not any(allowed.rstrip("*") in f"/api/{path}" for allowed in paths)


def test_without_keys_every_alias_is_served_at_home_and_nothing_goes_out(house: House) -> None:
    assert {name: alias.members for name, alias in house.aliases.items()} == {
        "fast": ("qwen3.5:4b", "qwen2.5-coder:1.5b"),
        "coder": ("qwen2.5-coder:7b", "qwen2.5-coder:1.5b"),
        "local": ("qwen3.5", "llama3.1"),
        "reasoning": ("qwen3.5",),
        "vision": ("qwen3-vl",),
        "embed": ("nomic-embed-text",),
        "transcribe": ("distil-medium.en",),
    }
    assert house.services["litellm"].egress == ()
    assert all(alias.offered for alias in house.aliases.values())


def test_a_key_opens_the_cloud_for_aliases_that_allow_it_only(inventory: Path) -> None:
    keys = frozenset({"openrouter_api_key", "anthropic_api_key"})
    house = derive(load(inventory), given_secrets=keys)
    assert house.aliases["reasoning"].members == ("nemotron-120b", "gpt-oss-120b", "qwen3.5")
    # No alias has the models of the other provider, so its key opens nothing.
    assert house.services["litellm"].egress == ("openrouter.ai",)
    assert house.services["litellm"].secrets == {
        "litellm_master_key": "random",
        "openrouter_api_key": "given",
    }
    assert not house.models["claude-haiku-4-5"].usable


def test_every_secret_of_the_house_has_a_name(house: House) -> None:
    assert house.secrets == {
        "litellm_master_key": "random",
        "open_webui_admin_password": "random",
        "open_webui_secret_key": "random",
        "pipelines_key": "random",
        "house_password": "random",
        "cookie_secret": "random",
        "consumer_household": "random",
        "consumer_guest": "random",
        "consumer_open_webui": "random",
        "consumer_pipelines": "random",
        "consumer_hearth_verify": "random",
        "openrouter_api_key": "given",
        "anthropic_api_key": "given",
    }


def test_the_house_can_be_serialised_as_json(house: House) -> None:
    values = house.as_vars()
    assert json.loads(json.dumps(values)) == values
    volume = values["services"]["ollama"]["volumes"][0]
    assert volume == {
        "name": "ollama-var-lib-ollama",
        "path": "/var/lib/ollama",
        "copy": "none",
        "from_folder": None,
    }


def test_a_service_whose_gpu_is_absent_is_off(inventory: Path) -> None:
    local = inventory / "local"
    local.mkdir()
    (local / "services.yml").write_text(
        "services:\n  painter:\n    summary: Paints.\n    enabled: auto\n    gpu: cuda\n"
        "    address: 10.140.30.20\n    port: 8188\n    health: {path: /, contains: ok}\n"
    )
    assert "painter" in derive(load(inventory)).services
    house = derive(load(inventory), absent=frozenset({"painter"}))
    assert "painter" not in house.services


def test_memory_is_summed_against_the_machine(inventory: Path) -> None:
    local = inventory / "local"
    local.mkdir()
    (local / "services.yml").write_text(
        "services:\n  ollama: {limits: {memory: 60%}}\n  litellm: {limits: {memory: 4GiB}}\n"
    )
    named = derive(load(inventory)).services
    services = [named["ollama"], named["litellm"]]
    gib = 2**30
    assert memory_shortage(services, 10 * gib) is None
    assert memory_shortage(services, 8 * gib) == (
        "limits.memory adds up to 8.8 GiB (ollama 4.8 + litellm 4.0), and this machine "
        "has 8.0 GiB; lower one in inventory/local/services.yml"
    )


def test_checking_a_large_house_takes_a_bounded_number_of_steps(tmp_path: Path) -> None:
    """A stopwatch would measure the neighbours; calls are the same on every machine."""
    folder = tmp_path / "inventory"
    shutil.copytree(BASE, folder)
    (folder / "local").mkdir()
    records = [
        f"  service_{n}:\n    summary: Number {n}.\n    address: 10.140.30.{n + 100}\n"
        f"    port: 8080\n    needs: [litellm]\n    health: {{path: /, contains: ok}}\n"
        f"    publish:\n      name-{n}: {{auth: lan}}\n    secrets: {{key_{n}: random}}\n"
        for n in range(50)
    ]
    (folder / "local" / "services.yml").write_text("services:\n" + "".join(records))
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        load(folder)
    finally:
        sys.setprofile(None)
    # About a million calls fit into the budget of half a second on a slow machine.
    assert calls < 1_000_000
