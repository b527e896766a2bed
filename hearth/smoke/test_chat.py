"""The family's chat: nobody gets in alone, nothing foreign comes in, and the house's models answer.

Nothing is left behind: what is asked here is asked in a chat that is not kept.
"""

import json
import re

import pytest

from hearth import status
from hearth.catalogue.house import House, Service
from hearth.clients import ClientError
from hearth.clients.chat import (
    SIGN_IN,
    ChatServer,
    Person,
    chat_server,
    live_connection,
    open_socket,
    send_message,
    sign_in,
    wait_for_answer,
)
from hearth.clients.edge import Edge
from hearth.machine import engine
from hearth.machine.secrets import Vault
from hearth.smoke import hosts
from hearth.smoke.criteria import policy_violations
from hearth.smoke.plugin import Notes, NotMeasured, Pending

pytestmark = pytest.mark.home

WITHIN_S = 60.0
ASK_S = 10.0
SETTINGS = "/etc/hearth/open-webui.json"
PASSWORD = "open_webui_admin_password"
ALIAS, TOKENS, TIMES = "fast", 16, 5
# What answers only who has signed in.
CLOSED = ["/api/models", "/api/v1/chats/", "/api/v1/users/", "/api/v1/files/", "/openai/models"]
# What a house is better off without, by the words of /api/config, and the setting behind each: who
# has written it into the inventory means it, and the receipt says so.
OFF = {
    "enable_direct_connections": "ENABLE_DIRECT_CONNECTIONS",
    "enable_direct_integrations": "ENABLE_DIRECT_INTEGRATIONS",
    "enable_community_sharing": "ENABLE_COMMUNITY_SHARING",
    "enable_code_execution": "ENABLE_CODE_EXECUTION",
    "enable_code_interpreter": "ENABLE_CODE_INTERPRETER",
    "enable_plugins": "ENABLE_PLUGINS",
    "enable_version_update_check": "ENABLE_VERSION_UPDATE_CHECK",
    "enable_web_search": "ENABLE_WEB_SEARCH",
}


@pytest.fixture
def settings(chat: Service) -> dict[str, str]:
    """What the house has decided for the chat, as it was given."""
    return dict(json.loads(engine.read_file(chat.instance, SETTINGS))["environment"])


@pytest.fixture
def door(chat: Service, edge: Edge) -> ChatServer:
    """The way to the chat."""
    return chat_server(edge, chat.publish[0].fqdn)


@pytest.fixture(scope="module")
def signed_in() -> dict[str, Person]:
    """Who has signed in already: upstream does not allow it often."""
    return {}


@pytest.fixture
def admin(
    door: ChatServer, settings: dict[str, str], vault: Vault, signed_in: dict[str, Person]
) -> Person:
    """The first account, while its password is still the vault's."""
    if door.fqdn not in signed_in:
        try:
            email, password = settings["WEBUI_ADMIN_EMAIL"], vault.get(PASSWORD)
            signed_in[door.fqdn] = sign_in(door, email, password)
        except ClientError as error:
            if "HTTP 400" not in str(error):
                raise
            raise NotMeasured("the first account has another password than the vault") from None
    return signed_in[door.fqdn]


def test_the_page_loads_nothing_foreign(door: ChatServer) -> None:
    answer = door.send("GET", "/", headers={"Accept": "text/html"})
    assert answer.status_code == 200, f"HTTP {answer.status_code}"
    assert "<html" in answer.text
    found = policy_violations(answer.headers.get("content-security-policy", ""), door.fqdn)
    assert not found, "its policy: " + "; ".join(found)
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_nobody_makes_an_account_alone(door: ChatServer, settings: dict[str, str]) -> None:
    if is_on(settings, "ENABLE_SIGNUP"):
        raise NotMeasured("the inventory lets everybody make an account")
    # Where sign-up is on, this is refused for its address, with 400: nobody is ever made here.
    form = {"name": "Nobody", "email": "no address", "password": "x"}
    answer = door.send("POST", "/api/v1/auths/signup", json=form)
    assert answer.status_code == 403, f"HTTP {answer.status_code}"
    assert door.send("GET", "/api/config").json()["features"]["enable_signup"] is False


def test_nobody_comes_past_the_front_door(chat: Service, house: House) -> None:
    # Whoever reaches its port is believed what he says of his address and of https.
    past = [
        flow.source for flow in house.flows if (flow.target, flow.port) == (chat.name, chat.port)
    ]
    assert not past, f"who needs {chat.name} comes to it past the front door: {', '.join(past)}"


def is_on(settings: dict[str, str], name: str) -> bool:
    """Say whether the inventory has switched something on."""
    return settings.get(name, "").lower() == "true"


@pytest.mark.parametrize("path", CLOSED)
def test_a_stranger_learns_nothing(door: ChatServer, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer sk-wrong"}):
        answer = door.send("GET", path, headers=headers)
        assert answer.status_code in (401, 403), f"{path}: HTTP {answer.status_code}"


def test_the_password_opens_it_and_stays_with_the_browser(
    door: ChatServer, settings: dict[str, str], vault: Vault, admin: Person
) -> None:
    assert admin.role == "admin"
    email = settings["WEBUI_ADMIN_EMAIL"]
    answer = door.send("POST", SIGN_IN, json={"email": email, "password": vault.get(PASSWORD)})
    cookie = answer.headers["set-cookie"].lower()
    for flag in ("secure", "httponly", "samesite="):
        assert flag in cookie, f"the cookie lacks {flag}"
    wrong = door.send("POST", SIGN_IN, json={"email": email, "password": "wrong"})
    assert wrong.status_code == 400, f"HTTP {wrong.status_code} for a wrong password"


def test_what_a_house_needs_not_is_off(
    admin: Person, settings: dict[str, str], notes: Notes
) -> None:
    config = admin.request("GET", "/api/config")
    notes.versions["open_webui"] = config["version"]
    features = config["features"]
    # What is told to nobody is no setting any more: then this test looks at the wrong words.
    assert OFF.keys() - features.keys() == set()
    meant = {name for name, word in OFF.items() if is_on(settings, word)}
    on = {name for name in OFF if features[name]}
    assert not on - meant, f"on: {', '.join(sorted(on - meant))}"
    if meant:
        notes.remark(f"the chat has {', '.join(sorted(OFF[name] for name in meant))} switched on")


def test_it_offers_the_houses_models_in_words_for_people(admin: Person, house: House) -> None:
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


def test_a_page_from_elsewhere_gets_no_line(door: ChatServer) -> None:
    with open_socket(door, ASK_S) as call:
        assert str(call.recv(ASK_S)).startswith("0")
    for origin in ("https://example.org", f"http://{door.fqdn}", "null"):
        with (
            pytest.raises(ClientError, match=r"HTTP 40[03]"),
            open_socket(door, ASK_S, origin=origin),
        ):
            pass


def test_a_question_is_answered_over_the_line(admin: Person, house: House, notes: Notes) -> None:
    state = status.models(house).aliases[ALIAS]
    if state.answered_by is None:
        raise Pending(state.percent, f"{state.waits_for} is being downloaded")
    first_ms = []
    with live_connection(admin) as line:
        for _ in range(TIMES):
            turn = send_message(admin, line, "What is 2 + 2?", ALIAS, kept=False, max_tokens=TOKENS)
            heard = wait_for_answer(line, turn, WITHIN_S)
            assert not heard.error, heard.error
            first_ms.append(1000 * heard.first_s)
    notes.figure("first words in the chat", "ms", first_ms, state.answered_by)


def test_what_it_takes(chat: Service, notes: Notes) -> None:
    read = f"cat /proc/$(systemctl show {chat.unit} --property MainPID --value)/status"
    said = hosts.host(chat.instance).check_output(read)
    held, most = (
        int(re.findall(rf"{word}:\s+(\d+)", said)[0]) / 1024 for word in ("VmRSS", "VmHWM")
    )
    notes.figure(f"memory of {chat.name}", "MiB", [held], f"{most:.0f} at its highest")
