"""The chat UI is closed to strangers, loads nothing foreign, and answers with the house's models.

The tests leave nothing behind: their messages belong to a chat that is not kept.
"""

import json
import re
from pathlib import Path

import pytest

from hearth.catalogue.house import House, Service
from hearth.clients import ClientError
from hearth.clients.chat import (
    SIGN_IN,
    Person,
    live_connection,
    open_socket,
    send_message,
    sign_in,
    wait_for_answer,
)
from hearth.clients.endpoints import Edge, Endpoint
from hearth.clients.llm import thought_alone
from hearth.machine import outside
from hearth.machine.secrets import Vault
from hearth.smoke.criteria import policy_violations
from hearth.smoke.plugin import Notes, NotMeasured

pytestmark = pytest.mark.home

WITHIN_S = 60.0
CONNECT_S = 10.0
TOKENS, TIMES = 16, 5
# These answer only an account that has signed in.
CLOSED = ["/api/models", "/api/v1/chats/", "/api/v1/users/", "/api/v1/files/", "/openai/models"]
# Risky features by their names in /api/config, and the setting of each. The inventory can switch
# them on, and the receipt reports that.
RISKY = {
    "enable_direct_connections": "ENABLE_DIRECT_CONNECTIONS",
    "enable_direct_integrations": "ENABLE_DIRECT_INTEGRATIONS",
    "enable_community_sharing": "ENABLE_COMMUNITY_SHARING",
    "enable_code_execution": "ENABLE_CODE_EXECUTION",
    "enable_code_interpreter": "ENABLE_CODE_INTERPRETER",
    "enable_plugins": "ENABLE_PLUGINS",
    "enable_version_update_check": "ENABLE_VERSION_UPDATE_CHECK",
    "enable_web_search": "ENABLE_WEB_SEARCH",
}
# The accounts that have signed in already: the chat limits how often that is possible.
SIGNED_IN: dict[str, Person] = {}


@pytest.fixture
def settings(chat: Service) -> dict[str, str]:
    """The chat's settings as the house has written them."""
    path = f"/etc/hearth/{chat.role.replace('_', '-')}.json"
    return dict(json.loads(outside.read_file(chat.instance, path))["environment"])


@pytest.fixture
def password(chat: Service, vault: Vault) -> str:
    """The password of the first account."""
    return vault.get(chat.admin_secret or "")


@pytest.fixture
def server(chat: Service, edge: Edge) -> Endpoint:
    """The chat as a browser reaches it."""
    return edge.endpoint(chat.sites[0].fqdn)


@pytest.fixture
def admin(server: Endpoint, settings: dict[str, str], password: str) -> Person:
    """The first account, while its password is still the vault's."""
    if server.name not in SIGNED_IN:
        try:
            SIGNED_IN[server.name] = sign_in(server, settings["WEBUI_ADMIN_EMAIL"], password)
        except ClientError as error:
            if "HTTP 400" not in str(error):
                raise
            raise NotMeasured("the first account has another password than the vault") from None
    return SIGNED_IN[server.name]


def is_on(settings: dict[str, str], name: str) -> bool:
    return settings.get(name, "").lower() == "true"


def test_the_chat_page_loads_nothing_foreign(server: Endpoint) -> None:
    answer = server.send("GET", "/", headers={"Accept": "text/html"})
    assert answer.status_code == 200, f"HTTP {answer.status_code}"
    assert "<html" in answer.text
    found = policy_violations(answer.headers.get("content-security-policy", ""), server.name)
    assert not found, "its policy: " + "; ".join(found)
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_strangers_cannot_create_accounts(server: Endpoint, settings: dict[str, str]) -> None:
    if is_on(settings, "ENABLE_SIGNUP"):
        raise NotMeasured("the inventory allows sign-up")
    # Where sign-up is on, the invalid address is rejected with 400: no account is ever created.
    account = {"name": "Nobody", "email": "no address", "password": "x"}
    answer = server.send("POST", "/api/v1/auths/signup", json=account)
    assert answer.status_code == 403, f"HTTP {answer.status_code}"
    assert server.send("GET", "/api/config").json()["features"]["enable_signup"] is False


def test_only_the_reverse_proxy_reaches_the_chat(chat: Service, house: House) -> None:
    # The chat believes what a client on its port claims about its address and about HTTPS.
    own = (chat.name, chat.port)
    others = [flow.source for flow in house.flows if (flow.target, flow.port) == own]
    assert not others, f"{', '.join(others)} needs {chat.name} and bypasses the reverse proxy"


@pytest.mark.parametrize("path", CLOSED)
def test_strangers_get_no_data_from_the_chat(server: Endpoint, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer sk-wrong"}):
        answer = server.send("GET", path, headers=headers)
        assert answer.status_code in (401, 403), f"{path}: HTTP {answer.status_code}"


def test_the_password_signs_in_with_a_secure_cookie(
    server: Endpoint, settings: dict[str, str], password: str, admin: Person
) -> None:
    assert admin.role == "admin"
    email = settings["WEBUI_ADMIN_EMAIL"]
    answer = server.send("POST", SIGN_IN, json={"email": email, "password": password})
    cookie = answer.headers["set-cookie"].lower()
    for flag in ("secure", "httponly", "samesite="):
        assert flag in cookie, f"the cookie has no {flag}"
    wrong = server.send("POST", SIGN_IN, json={"email": email, "password": "wrong"})
    assert wrong.status_code == 400, f"HTTP {wrong.status_code} for a wrong password"


def test_risky_features_are_off(
    chat: Service, admin: Person, settings: dict[str, str], notes: Notes
) -> None:
    config = admin.request("GET", "/api/config")
    notes.versions[chat.name] = config["version"]
    features = config["features"]
    # A feature that is no longer reported has a new name, which this test must learn.
    assert RISKY.keys() - features.keys() == set()
    wanted = {name for name, setting in RISKY.items() if is_on(settings, setting)}
    on = {name for name in RISKY if features[name]}
    assert not on - wanted, f"on: {', '.join(sorted(on - wanted))}"
    if wanted:
        notes.remark(f"the chat has {', '.join(sorted(RISKY[name] for name in wanted))} on")


def test_the_chat_offers_the_houses_aliases_with_descriptions(admin: Person, house: House) -> None:
    offered = {model["id"]: model for model in admin.request("GET", "/api/models")["data"]}
    aliases = {alias.name: alias for alias in house.aliases.values() if alias.offered}
    assert not aliases.keys() - offered.keys(), f"missing: {aliases.keys() - offered.keys()}"
    for name, alias in aliases.items():
        model = offered[name]
        assert model["name"], f"{name} has no name"
        meta = model["info"]["meta"]
        assert meta["description"] == alias.summary, f"{name}: {meta['description']}"
        hidden = alias.kind in ("embed", "transcribe")
        assert bool(meta.get("hidden")) == hidden, f"{name} is {'not ' if hidden else ''}hidden"


def test_a_page_of_another_origin_gets_no_websocket(server: Endpoint) -> None:
    with open_socket(server, CONNECT_S) as socket:
        assert str(socket.recv(CONNECT_S)).startswith("0")
    for origin in ("https://example.org", f"http://{server.name}", "null"):
        with (
            pytest.raises(ClientError, match=r"HTTP 40[03]"),
            open_socket(server, CONNECT_S, origin=origin),
        ):
            pass


def test_a_chat_message_is_answered(
    admin: Person, default_alias: str, default_model: str, notes: Notes
) -> None:
    first_ms, remarks = [], set()
    with live_connection(admin) as connection:
        for _ in range(TIMES):
            turn = send_message(
                admin, connection, "What is 2 + 2?", default_alias, kept=False, max_tokens=TOKENS
            )
            answer = wait_for_answer(connection, turn, WITHIN_S)
            assert not answer.error, answer.error
            first_ms.append(1000 * answer.first_s)
            if not answer.text:
                remarks.add(thought_alone(default_model))
    notes.figure("first words in the chat", "ms", first_ms, default_model, default_model)
    for text in remarks:
        notes.remark(f"in the chat, {text}")


def test_the_memory_of_the_chat_is_measured(chat: Service, notes: Notes) -> None:
    pid = outside.processes(chat.system, chat.unit).pids[0]
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    fields = dict(re.findall(r"(\w+):\s+(\d+) kB", text))
    rss, peak = (int(fields[name]) / 1024 for name in ("VmRSS", "VmHWM"))
    notes.figure(f"memory of {chat.name}", "MiB", [rss], f"{peak:.0f} at its peak")
