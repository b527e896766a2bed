"""Nobody gets in without a key or the password, and no secret lies where it can be read."""

import re
from html import unescape
from urllib.parse import urlencode

import pytest

from hearth.catalogue.house import Consumer, House, Service, Site
from hearth.clients.edge import Edge
from hearth.machine import engine
from hearth.machine.secrets import Vault
from hearth.project import Project
from hearth.smoke import hosts
from hearth.smoke.plugin import NotMeasured

pytestmark = pytest.mark.home

WITHIN_S = 15
# What LiteLLM offers besides models; none of it is for the LAN.
INNER_PATHS = ["/ui", "/ui/", "/health", "/key/generate", "/key/info", "/config/yaml", "/metrics"]
LOG_LINES = 20_000
# Reads every command line and environment of a system, our own program's left out.
LOOK_AT_PROCESSES = """
import glob, os, sys
for path in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ"):
    if path.split("/")[2] != str(os.getpid()):
        try:
            sys.stdout.write(open(path, errors="replace").read() + chr(10))
        except OSError:
            pass
"""


@pytest.mark.parametrize("wrong", [None, "sk-wrong"])
def test_without_a_good_key_there_is_no_answer(
    keyed_site: Site, edge: Edge, wrong: str | None
) -> None:
    answer = edge.request(keyed_site.fqdn, "/v1/models", key=wrong, within_s=WITHIN_S)
    assert answer.status == 401, f"HTTP {answer.status}"
    assert answer.json()["error"]["message"]


def test_the_right_key_opens(keyed_site: Site, edge: Edge, key: str, house: House) -> None:
    answer = edge.request(keyed_site.fqdn, "/v1/models", key=key, within_s=WITHIN_S)
    assert answer.status == 200, f"HTTP {answer.status}: {answer.text[:200]}"
    offered = {model["id"] for model in answer.json()["data"]}
    assert offered, "it offers no model"
    service = house.services.get(keyed_site.service)
    if service is None or "models" not in service.offers:
        return
    missing = {alias.name for alias in house.aliases.values() if alias.offered} - offered
    assert not missing, f"not offered: {', '.join(sorted(missing))}"


def test_a_key_for_another_service_opens_nothing(
    keyed_site: Site, edge: Edge, house: House, vault: Vault
) -> None:
    others = [c for c in house.consumers.values() if keyed_site.service not in c.services]
    if not others:
        raise NotMeasured(f"every consumer of this house may use {keyed_site.service}")
    for consumer in others:
        own = vault.get(consumer.secret)
        answer = edge.request(keyed_site.fqdn, "/v1/models", key=own, within_s=WITHIN_S)
        assert answer.status in (401, 403), f"{consumer.name}: HTTP {answer.status}"


@pytest.mark.parametrize("path", INNER_PATHS)
def test_inner_paths_are_not_on_the_lan(keyed_site: Site, edge: Edge, key: str, path: str) -> None:
    answer = edge.request(keyed_site.fqdn, path, key=key, within_s=WITHIN_S)
    assert answer.status in (403, 404), f"{path}: HTTP {answer.status}"


def test_a_limited_key_is_limited(
    limited_consumer: Consumer, gateway: str, edge: Edge, vault: Vault, house: House
) -> None:
    own = vault.get(limited_consumer.secret)
    answer = edge.request(gateway, "/v1/models", key=own, within_s=WITHIN_S)
    assert answer.status == 200, f"HTTP {answer.status}: {answer.text[:200]}"
    assert {model["id"] for model in answer.json()["data"]} <= set(limited_consumer.models)
    others = [
        name for name in [*house.aliases, *house.models] if name not in limited_consumer.models
    ]
    send = {"model": others[0], "messages": [{"role": "user", "content": "hello"}]}
    answer = edge.request(gateway, "/v1/chat/completions", key=own, send=send, within_s=WITHIN_S)
    assert answer.status in (401, 403), f"{others[0]}: HTTP {answer.status}"


def test_a_page_of_the_house_asks_for_the_password(house_site: Site, edge: Edge) -> None:
    page = {"Accept": "text/html"}
    answer = edge.request(house_site.fqdn, "/", within_s=WITHIN_S, headers=page)
    assert answer.status == 302, f"HTTP {answer.status}"
    assert answer.headers["location"].startswith("/hearth-login/")
    program = edge.request(house_site.fqdn, "/", within_s=WITHIN_S)
    assert program.status == 401, f"HTTP {program.status}"


def test_the_password_opens_a_page_of_the_house(house_site: Site, edge: Edge, vault: Vault) -> None:
    fqdn, login = house_site.fqdn, "/hearth-login/"
    page = edge.request(fqdn, login, within_s=WITHIN_S, headers={"Accept": "text/html"})
    token = re.search(r'name="token" value="([^"]+)"', page.text)
    assert token, f"no form at https://{fqdn}{login}: HTTP {page.status}"
    cookie = ""
    for password, wanted in (("wrong", 403), (vault.get("house_password"), 303)):
        form = urlencode({"token": unescape(token[1]), "next": "/", "password": password})
        origin = {"Origin": f"https://{fqdn}"}
        answer = edge.request(fqdn, login, send=form, within_s=WITHIN_S, headers=origin)
        assert answer.status == wanted, f"sign-in: HTTP {answer.status}, not {wanted}"
        cookie = answer.headers.get("set-cookie", "")
    assert cookie.startswith("__Host-hearth=")
    for flag in ("Secure", "HttpOnly", "Path=/"):
        assert flag.lower() in cookie.lower(), f"the cookie lacks {flag}"
    held = {"Cookie": cookie.partition(";")[0], "Accept": "text/html"}
    answer = edge.request(fqdn, "/", within_s=WITHIN_S, headers=held)
    # The receipt itself is written after this test, so the first time there is no page yet.
    assert answer.status in (200, 404), f"HTTP {answer.status} with the cookie"
    _sign_out(edge, fqdn, held, origin)
    assert edge.request(fqdn, "/", within_s=WITHIN_S, headers=held).status == 302


def _sign_out(edge: Edge, fqdn: str, held: dict[str, str], origin: dict[str, str]) -> None:
    page = edge.request(fqdn, "/hearth-login/", within_s=WITHIN_S, headers=held)
    token = re.search(r'name="token" value="([^"]+)"', page.text)
    assert token, "a signed-in visitor gets no form to sign out"
    form = urlencode({"token": unescape(token[1])})
    answer = edge.request(
        fqdn, "/hearth-login/logout", send=form, within_s=WITHIN_S, headers=held | origin
    )
    assert answer.status == 303, f"sign-out: HTTP {answer.status}"


@pytest.mark.unit(None, "hearth-caddy.service")
def test_no_key_stands_in_a_caddyfile(vault: Vault, house: House) -> None:
    text = hosts.host(None).check_output("cat /etc/caddy/* /etc/hearth/caddy/* 2>/dev/null; true")
    text += hosts.host(None).check_output("find /etc/hearth -name '*Caddyfile*' -exec cat {} +")
    assert text, "no Caddyfile was found"
    found = _found(vault, house, text)
    assert not found, f"a Caddyfile holds {', '.join(found)}"


def test_no_secret_is_in_a_command_line_or_environment(
    inside: Service, vault: Vault, house: House
) -> None:
    for instance in (inside.instance, None):
        argv = ["/usr/bin/python3", "-I", "-c", LOOK_AT_PROCESSES]
        text = engine.execute(instance, argv, timeout=30).stdout
        assert text
        found = _found(vault, house, text)
        assert not found, f"{instance or 'the machine'} shows {', '.join(found)}"


def test_no_secret_is_in_a_log(
    inside: Service, vault: Vault, house: House, project: Project
) -> None:
    argv = ["/usr/bin/journalctl", "--no-pager", "--boot", "--output=cat", f"--lines={LOG_LINES}"]
    for instance in (inside.instance, None):
        found = _found(vault, house, engine.execute(instance, argv, timeout=30).stdout)
        assert not found, f"the journal of {instance or 'the machine'} holds {', '.join(found)}"
    for path in project.logs.glob("*.log"):
        found = _found(vault, house, path.read_text(encoding="utf-8", errors="replace"))
        assert not found, f"{path} holds {', '.join(found)}"


def _found(vault: Vault, house: House, text: str) -> list[str]:
    """Return the names, never the values, of the secrets that stand in a text."""
    secret = {*house.secrets, "house_root_key", "house_intermediate_key"}
    return [name for name, value in vault.values().items() if name in secret and value in text]


def test_files_of_secrets_are_closed(inside: Service) -> None:
    line = "find /etc/hearth/credentials -type f -printf '%m %U %p\\n' 2>/dev/null; true"
    for instance in (inside.instance, None):
        for found in hosts.host(instance).check_output(line).splitlines():
            mode, owner, path = found.split(" ", 2)
            where = instance or "the machine"
            assert mode in ("400", "440"), f"{where}: {path} is {mode}"
            assert owner == "0", f"{where}: {path} belongs to user {owner}"


def test_the_vault_is_closed(vault: Vault) -> None:
    for path in (vault.path, vault.password_file):
        mode = path.stat().st_mode & 0o777
        assert mode == 0o600, f"{path} is {mode:o}"
