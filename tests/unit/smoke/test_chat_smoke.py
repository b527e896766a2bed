"""The smoke tests of the chat pass for a chat as it should be, and fail for those that are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from hearth.clients.chat import SIGN_IN
from hearth.smoke import test_chat as smoke
from hearth.smoke.plugin import Notes, NotMeasured

POLICY = "default-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
COOKIE = "token=t; HttpOnly; Secure; SameSite=lax; Path=/"
SETTINGS = {"WEBUI_ADMIN_EMAIL": "admin@house.lan", "ENABLE_SIGNUP": "False"}
HIDDEN = ("embed", "transcribe")


def alias(name: str, kind: str = "chat") -> Any:
    return SimpleNamespace(name=name, kind=kind, offered=True, summary=f"About {name}.")


HOUSE: Any = SimpleNamespace(
    aliases={a.name: a for a in (alias("fast"), alias("embed", "embed"), alias("gone"))}
)
HOUSE.aliases["gone"].offered = False
PASSWORD = "the vault's"
SERVICE: Any = SimpleNamespace(name="open_webui", port=8080)


def entry(name: str, **meta: Any) -> dict[str, Any]:
    details = {"description": f"About {name}.", "hidden": name in HIDDEN, **meta}
    return {"id": name, "name": name.title(), "info": {"meta": details}}


@dataclass
class Chat:
    """A chat and its admin, correct by default."""

    policy: str = POLICY
    sign_up: int = 403
    stranger: int = 401
    cookie: str = COOKIE
    wrong_password: int = 400
    switched_on: tuple[str, ...] = ()
    reported: tuple[str, ...] = tuple(smoke.RISKY)
    models: list[dict[str, Any]] = field(default_factory=lambda: [entry("fast"), entry("embed")])
    name: str = "chat.lan"
    role: str = "admin"

    def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        if path == "/":
            headers = {"content-security-policy": self.policy, "x-content-type-options": "nosniff"}
            return httpx.Response(200, headers=headers, text="<!doctype html><html></html>")
        if path == "/api/v1/auths/signup":
            return httpx.Response(self.sign_up)
        if path == SIGN_IN:
            right = more["json"]["password"] == PASSWORD
            status = 200 if right else self.wrong_password
            return httpx.Response(status, headers={"set-cookie": self.cookie})
        if path == "/api/config":
            return httpx.Response(200, json={"features": {"enable_signup": self.sign_up != 403}})
        return httpx.Response(self.stranger)

    def request(self, _method: str, path: str) -> Any:
        if path == "/api/models":
            return {"data": self.models}
        return {
            "version": "1",
            "features": {name: name in self.switched_on for name in self.reported},
        }


def page(chat: Any) -> None:
    smoke.test_the_chat_page_loads_nothing_foreign(chat)


def sign_up(chat: Any) -> None:
    smoke.test_strangers_cannot_create_accounts(chat, SETTINGS)


def stranger(chat: Any) -> None:
    smoke.test_strangers_get_no_data_from_the_chat(chat, "/api/models")


def password(chat: Any) -> None:
    smoke.test_the_password_signs_in_with_a_secure_cookie(chat, SETTINGS, PASSWORD, chat)


def switches(chat: Any) -> None:
    smoke.test_risky_features_are_off(SERVICE, chat, SETTINGS, Notes())


def models(chat: Any) -> None:
    smoke.test_the_chat_offers_the_houses_aliases_with_descriptions(chat, HOUSE)


ALL = (page, sign_up, stranger, password, switches, models)


@pytest.mark.parametrize("test", ALL)
def test_a_chat_as_it_should_be_passes(test: Callable[[Any], None]) -> None:
    test(Chat())


@pytest.mark.parametrize(
    ("test", "flaw", "problem"),
    [
        (page, {"policy": ""}, "default-src is missing"),
        (page, {"policy": f"{POLICY}; img-src https:"}, "img-src allows https:"),
        (sign_up, {"sign_up": 400}, "HTTP 400"),
        (stranger, {"stranger": 200}, "HTTP 200"),
        (password, {"cookie": COOKIE.replace("Secure; ", "")}, "the cookie has no secure"),
        (password, {"cookie": COOKIE.replace("HttpOnly; ", "")}, "the cookie has no httponly"),
        (password, {"wrong_password": 200}, "HTTP 200 for a wrong password"),
        (password, {"role": "user"}, "user"),
        (switches, {"switched_on": ("enable_code_execution",)}, "on: enable_code_execution"),
        (switches, {"reported": tuple(smoke.RISKY)[1:]}, "enable_direct_connections"),
        (models, {"models": [entry("embed")]}, "missing: {'fast'}"),
        (models, {"models": [entry("fast", description="fast"), entry("embed")]}, "fast: fast"),
        (models, {"models": [entry("fast"), entry("embed", hidden=False)]}, "embed is not hidden"),
        (models, {"models": [entry("fast", hidden=True), entry("embed")]}, "fast is hidden"),
    ],
)
def test_each_flaw_is_seen(test: Callable[[Any], None], flaw: dict[str, Any], problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        test(Chat(**flaw))


def test_features_that_the_inventory_switches_on_become_a_remark() -> None:
    notes = Notes()
    settings = SETTINGS | {"ENABLE_CODE_EXECUTION": "True", "ENABLE_SIGNUP": "true"}
    chat: Any = Chat(switched_on=("enable_code_execution",), sign_up=400)
    smoke.test_risky_features_are_off(SERVICE, chat, settings, notes)
    assert notes.remarks == ["the chat has ENABLE_CODE_EXECUTION on"]
    with pytest.raises(NotMeasured):
        smoke.test_strangers_cannot_create_accounts(chat, settings)


@pytest.mark.parametrize("sources", [[], ["pipelines"]])
def test_a_service_that_bypasses_the_reverse_proxy_is_named(sources: list[str]) -> None:
    flows = [SimpleNamespace(source=source, target="open_webui", port=8080) for source in sources]
    flows.append(SimpleNamespace(source="scraper", target="open_webui", port=9000))
    house: Any = SimpleNamespace(flows=flows)
    if not sources:
        smoke.test_only_the_reverse_proxy_reaches_the_chat(SERVICE, house)
        return
    with pytest.raises(AssertionError, match="pipelines needs open_webui"):
        smoke.test_only_the_reverse_proxy_reaches_the_chat(SERVICE, house)
