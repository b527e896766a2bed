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
from hearth.render.files import consumer_secrets, login_config
from hearth.render.gateway import gateway_files, litellm_config
from tests.mock_upstreams.scripted import programs

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
    return derive(load(inventory), has=lambda gpu: gpu != "cuda")


def test_the_first_answer_needs_the_gateway_and_the_servers_of_the_default_alias(
    house: House,
) -> None:
    needed = {name for name, service in house.services.items() if not service.background}
    assert needed == {"ollama", "litellm"}


def test_the_reference_house_has_its_services_in_order(without_a_card: House) -> None:
    house = without_a_card
    assert list(house.services) == [
        "ollama",
        "kokoro",
        "whisper",
        "ntfy",
        "fetcher",
        "litellm",
        "alertmanager",
        "agents",
        "prometheus",
        "pipelines",
        "open_webui",
    ]
    assert [(flow.source, flow.target, flow.port) for flow in house.flows] == [
        ("litellm", "ollama", 11434),
        ("litellm", "whisper", 8000),
        ("alertmanager", "ntfy", 2586),
        ("agents", "litellm", 4000),
        ("agents", "broker", 9185),
        ("prometheus", "alertmanager", 9093),
        ("prometheus", "kokoro", 8880),
        ("prometheus", "whisper", 8000),
        ("prometheus", "fetcher", 9400),
        ("prometheus", "litellm", 4000),
        ("prometheus", "agents", 9100),
        ("prometheus", "node_exporter", 9183),
        ("prometheus", "blackbox_exporter", 9184),
        ("pipelines", "litellm", 4000),
        ("pipelines", "agents", 9100),
        ("open_webui", "litellm", 4000),
        ("open_webui", "kokoro", 8880),
        ("open_webui", "pipelines", 9099),
        ("open_webui", "agents", 9100),
        ("open_webui", "broker", 9185),
    ]
    # Who speaks is not called through LiteLLM, so the two have nothing to say to each other.
    called = {(flow.source, flow.target) for flow in house.flows}
    assert {(flow.source, flow.target) for flow in house.forbidden if flow.port != 10300} == {
        (source, target)
        for source in house.services
        for target in (*house.services, "node_exporter", "blackbox_exporter", "broker")
        if source != target and (source, target) not in called
    }
    # The satellites' port is for satellites, not even for who may call its server otherwise.
    others = {*house.services} - {"whisper"}
    assert {flow.source for flow in house.forbidden if flow.port == 10300} == others
    assert set(house.published_ports) == {
        ("10.140.30.14", 4000),
        ("10.140.30.18", 8880),
        ("10.140.30.30", 8000),
        ("10.140.30.34", 8080),
        ("10.140.30.42", 2586),
        ("10.140.30.54", 9100),
    }
    assert [(site.fqdn, site.auth) for site in house.sites] == [
        ("kokoro-stream.lan", "key"),
        ("kokoro-web.lan", "house"),
        ("whisper.lan", "house"),
        ("ntfy.lan", "own"),
        ("llm.lan", "key"),
        ("agents.lan", "key"),
        ("chat.lan", "own"),
        ("trust.lan", "lan"),
        ("home.lan", "house"),
        ("broker.lan", "key"),
    ]
    assert [site.fqdn for site in house.sites if site.plain] == ["trust.lan"]


def test_what_hears_is_given_the_models_of_aliases_and_others_for_who_asks(house: House) -> None:
    given = house.services["whisper"].weights
    assert [model.name for model in given if model.wanted] == [
        *("large-v3-turbo", "small", "base", "tiny")
    ]
    assert [model.name for model in given if not model.wanted] == [
        "tiny.en", "base.en", "small.en", "medium", "medium.en", "distil-medium.en", "large-v3",
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


def test_an_instance_sees_its_own_programs_and_those_it_shares(inventory: Path) -> None:
    (inventory / "local").mkdir()
    (inventory / "local/services.yml").write_text("services:\n  kokoro_fastapi: {enabled: true}\n")
    house = derive(load(inventory))
    assert {name: service.programs for name, service in house.services.items()} == {
        "ollama": ("ollama", "ollama-models"),
        "kokoro": (
            *("kokoro", "kokoro_model", "kokoro_model_fp16", "kokoro_model_int8"),
            "kokoro_voices",
        ),
        "kokoro_gpu": ("kokoro_gpu", "kokoro_weights", "kokoro_config", "kokoro_voices"),
        "kokoro_fastapi": (
            *("kokoro_fastapi", "kokoro_fastapi_python"),
            *("kokoro_weights", "kokoro_config", "spacy_english"),
        ),
        "whisper": (
            *("whisper", "whisper_tiny", "whisper_tiny_en"),
            *("whisper_large_v3_turbo", "whisper_small", "whisper_base"),
        ),
        "litellm": ("litellm",),
        "pipelines": ("pipelines", "pipelines_files"),
        "agents": ("agents", "agents_files"),
        "open_webui": ("open_webui",),
        **{name: (name,) for name in ("ntfy", "alertmanager", "prometheus", "fetcher")},
    }


def test_a_model_that_a_setting_names_is_seen_and_no_other_services_program(
    inventory: Path,
) -> None:
    (inventory.parent / "roles").symlink_to(ROOT / "roles")
    (inventory / "local").mkdir()
    (inventory / "local/services.yml").write_text(
        "services:\n"
        "  whisper: {settings: {whisper_draft: base.en}}\n"
        # Ollama's archive, in a folder named like this service.
        "  second:\n"
        "    role: ollama\n    summary: Ollama once more.\n    sources: [ollama]\n"
        "    address: 10.140.30.150\n    port: 11434\n"
        "    health: {path: /api/version, contains: version}\n"
        "  elsewhere:\n"
        "    role: ollama\n    summary: Ollama of a neighbour.\n    programs: [ollama]\n"
        "    runtime: external\n    url: http://192.0.2.5:11434\n"
        "    health: {path: /api/version, contains: version}\n"
    )
    services = derive(load(inventory)).services
    assert "whisper_base_en" in services["whisper"].programs
    assert services["second"].programs == ("second",)
    assert services["elsewhere"].programs == ()


def test_a_model_that_needs_a_gpu_is_neither_downloaded_nor_used_without_one(
    without_a_card: House, inventory: Path
) -> None:
    given = without_a_card.services["whisper"].weights
    assert [model.name for model in given if model.wanted] == ["small", "base", "tiny"]
    alias = without_a_card.aliases["transcribe"]
    assert (alias.members, alias.offered) == (("small", "base", "tiny"), True)
    reason = "it needs gpu: cuda, which whisper does not have here"
    assert alias.dropped == {"large-v3-turbo": reason}
    # A card that its service must leave to others is as good as none.
    (inventory / "local").mkdir()
    (inventory / "local/services.yml").write_text("services:\n  whisper: {gpu: none}\n")
    assert derive(load(inventory)).aliases["transcribe"].members == alias.members


def test_a_house_without_a_card_neither_has_nor_misses_what_waits_for_one(
    without_a_card: House, house: House
) -> None:
    assert house.services.keys() - without_a_card.services.keys() == {"kokoro_gpu"}
    assert {site.fqdn for site in house.sites} - {site.fqdn for site in without_a_card.sites} == {
        "kokoro-gpu.lan",
        "kokoro-gpu-web.lan",
    }
    assert (house.services["kokoro_gpu"].role, house.services["kokoro_gpu"].gpu) == (
        "kokoro",
        "cuda",
    )
    # Who may use it is written down for the day when there is a card.
    assert "kokoro_gpu" in without_a_card.consumers["household"].services
    assert "kokoro" not in without_a_card.consumers["guest"].services


def test_the_chat_speaks_by_the_processor_unless_told_otherwise(
    inventory: Path, house: House
) -> None:
    assert house.services["open_webui"].needs == ("litellm", "kokoro", "pipelines", "agents")
    (inventory / "local").mkdir()
    # The line of docs/text-to-speech.md.
    (inventory / "local/services.yml").write_text(
        "services:\n  open_webui: {needs: [litellm, kokoro_gpu | kokoro, pipelines]}\n"
    )
    told = derive(load(inventory))
    assert told.services["open_webui"].needs == ("litellm", "kokoro_gpu", "pipelines", "agents")


def test_keys_of_services_open_nothing_from_the_lan(house: House) -> None:
    opened = {name for name, held in login_config(house)["consumers"].items() if held["services"]}
    assert opened == {"household", "guest", "hearth_verify"}
    # Inside, the same keys open the models.
    assert {"open_webui", "pipelines"} <= consumer_secrets(house, "litellm").keys()


def test_the_tests_own_key_opens_what_is_published_and_no_part(
    inventory: Path, house: House
) -> None:
    shipped = ("litellm", "kokoro", "kokoro_gpu", "kokoro_fastapi", "whisper", "agents", "voice")
    assert house.consumers["hearth_verify"].services == shipped
    assert "broker" in house.parts
    (inventory / "local").mkdir()
    (inventory / "local/services.yml").write_text(f"services:\n{programs.VOICE_TWO}")
    told = derive(load(inventory))
    assert told.consumers["hearth_verify"].services == (*shipped, "voice_two")
    assert "voice_two" in login_config(told)["consumers"]["hearth_verify"]["services"]
    # A proposed service opens itself to nobody else.
    assert "voice_two" not in told.consumers["household"].services


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
        "orchestrator": ("qwen3.5",),
        "haiku": (),
        "voice": ("qwen3.5:4b", "qwen2.5-coder:1.5b"),
        "vision": ("qwen3-vl",),
        "embed": ("nomic-embed-text",),
        "transcribe": ("large-v3-turbo", "small", "base", "tiny"),
    }
    assert house.services["litellm"].egress == ()
    # One waits for a key, and says for which; the other one's service is off.
    assert [alias.name for alias in house.aliases.values() if not alias.offered] == [
        "haiku",
        "voice",
    ]
    for secret in ("anthropic_api_key", "openrouter_api_key"):
        assert f"hearth secret set {secret}" in str(house.aliases["haiku"].reason)


def test_an_alias_is_offered_only_with_the_service_that_it_is_for(inventory: Path) -> None:
    off = derive(load(inventory))
    assert off.aliases["voice"].reason == "voice is off"
    assert "voice" not in gateway_files(off)["aliases.json"]
    (inventory / "local").mkdir()
    (inventory / "local" / "services.yml").write_text("services: {voice: {enabled: true}}\n")
    on = derive(load(inventory))
    assert on.aliases["voice"].offered
    assert on.aliases["voice"].reason is None
    assert "voice" in gateway_files(on)["aliases.json"]


@pytest.mark.parametrize(
    ("key", "member", "host"),
    [
        ("anthropic_api_key", "claude-haiku-4-5", "api.anthropic.com"),
        ("openrouter_api_key", "claude-haiku-4-5-openrouter", "openrouter.ai"),
    ],
)
def test_either_key_makes_haiku_usable(inventory: Path, key: str, member: str, host: str) -> None:
    house = derive(load(inventory), given_secrets=frozenset({key}))
    assert house.aliases["haiku"].members == (member,)
    assert house.services["litellm"].egress == (host,)
    routes = {route["model_name"]: route for route in litellm_config(house)["model_list"]}
    assert routes[member]["litellm_params"]["api_key"] == f"os.environ/{key.upper()}"


def test_a_key_opens_the_cloud_for_aliases_that_allow_it_only(inventory: Path) -> None:
    keys = frozenset({"openrouter_api_key", "anthropic_api_key"})
    house = derive(load(inventory), given_secrets=keys)
    assert house.aliases["reasoning"].members == ("nemotron-120b", "gpt-oss-120b", "qwen3.5")
    # `fast` and the others stay at home; the models that no alias has stay closed.
    assert not [name for name, a in house.aliases.items() if a.dropped and a.cloud]
    assert {model for model in ("qwen3-80b", "free") if house.models[model].usable} == set()
    assert {*house.services["litellm"].egress} == {"openrouter.ai", "api.anthropic.com"}
    assert house.services["litellm"].secrets == {
        "litellm_master_key": "random",
        "openrouter_api_key": "given",
        "anthropic_api_key": "given",
    }


def test_every_secret_of_the_house_has_a_name(house: House) -> None:
    assert house.secrets == {
        "litellm_master_key": "random",
        "open_webui_admin_password": "random",
        "open_webui_secret_key": "random",
        "ntfy_password": "random",
        "pipelines_key": "random",
        "house_password": "random",
        "cookie_secret": "random",
        "consumer_household": "random",
        "consumer_guest": "random",
        "consumer_open_webui": "random",
        "consumer_pipelines": "random",
        "consumer_agents": "random",
        "consumer_voice": "random",
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
        "    address: 10.140.30.130\n    port: 8188\n    health: {path: /, contains: ok}\n"
    )
    assert "painter" in derive(load(inventory)).services
    house = derive(load(inventory), has=lambda gpu: gpu != "cuda")
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
