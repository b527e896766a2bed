"""Secrets are read once however many are named; filters turn our errors into Ansible's."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleError

from hearth.catalogue import derive, load
from hearth.machine.secrets import SecretsError
from hearth.render.files import consumer_secrets
from tests.unit.plugins.by_path import plugin

BASE = Path(__file__).parents[2] / "fixtures" / "catalogue" / "base"


class FakeVault:
    """A vault that counts how often it is decrypted."""

    def __init__(self, held: dict[str, str] | SecretsError) -> None:
        self.held, self.reads = held, 0

    def values(self) -> dict[str, str]:
        self.reads += 1
        if isinstance(self.held, SecretsError):
            raise self.held
        return self.held


def lookup(monkeypatch: pytest.MonkeyPatch, vault: FakeVault) -> Any:
    module = plugin("lookup", "house_secret")
    monkeypatch.setattr(module, "current", lambda: SimpleNamespace(vault=vault))
    made = module.LookupModule()
    made.set_options = lambda **_: None
    return made


def test_secrets_are_sorted_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    vault = FakeVault({"a": "1", "b": "2", "c": "3"})
    assert lookup(monkeypatch, vault).run(["c", "a"]) == ["3", "1"]
    assert vault.reads == 1


def test_a_secret_that_is_not_set_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AnsibleError) as caught:
        lookup(monkeypatch, FakeVault({"a": "hunter2"})).run(["a", "openrouter_api_key"])
    text = "secret openrouter_api_key is not set: `hearth secret set openrouter_api_key`"
    assert text in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_check_mode_works_before_the_secrets_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    look = lookup(monkeypatch, FakeVault({"a": "1"}))
    assert look.run(["b", "a"], {"ansible_check_mode": True}) == ["not made yet", "1"]
    with pytest.raises(AnsibleError, match="secret b is not set"):
        look.run(["b", "a"], {"ansible_check_mode": False})


def test_an_unreadable_vault_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AnsibleError) as caught:
        lookup(monkeypatch, FakeVault(SecretsError("the vault: wrong password"))).run(["a"])
    assert "the vault: wrong password" in str(caught.value)


@pytest.fixture
def filters() -> ModuleType:
    return plugin("filter", "hearth")


def test_every_filter_can_be_called(filters: ModuleType) -> None:
    offered = filters.FilterModule().filters()
    assert {"health_at", "litellm_config", "consumer_secrets"} <= set(offered)
    assert all(callable(function) for function in offered.values())


def test_health_is_requested_at_the_services_address_or_at_another(filters: ModuleType) -> None:
    service = derive(load(BASE)).as_vars()["services"]["litellm"]
    limits = {"contains": "healthy", "within_s": 5, "ready_s": 60}
    assert filters.health_at(service) == {"url": "http://10.140.30.14:4000/health", **limits}
    assert filters.health_at(service, "127.0.0.1")["url"] == "http://127.0.0.1:4000/health"


def test_a_filter_gives_its_projection_the_typed_house(filters: ModuleType) -> None:
    house = derive(load(BASE))
    keys = filters.FilterModule().filters()["consumer_secrets"](house.as_vars(), "litellm")
    assert keys == consumer_secrets(house, "litellm") == {"household": "consumer_household"}
