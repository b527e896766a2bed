"""A key or the password is required everywhere, and no secret is readable where it must not be."""

import functools
import re
from html import unescape
from urllib.parse import urlencode

import pytest

from hearth.catalogue.house import Consumer, House, Service, Site
from hearth.clients.endpoints import Edge
from hearth.machine import engine
from hearth.machine.secrets import Vault
from hearth.project import VERIFIER, Project
from hearth.smoke.hosts import ask, host, needs_instances
from hearth.smoke.plugin import NotMeasured

pytestmark = pytest.mark.home

WITHIN_S = 15
LOGIN, MODELS, DESCRIPTION = "/hearth-login/", "/v1/models", "/openapi.json"
HTML = {"Accept": "text/html"}
# What a gateway may serve besides models; none of it is for the LAN.
PATHS = ("ui", "ui/", "health", "key/generate", "key/info", "config/yaml", "metrics")
JOURNAL = ["/usr/bin/journalctl", "--no-pager", "--boot", "--output=cat", "--lines=20000"]
# Prints the command line and environment of every process.
READ_PROCESSES = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null"

# A container has its own at the second place.
READ_CREDENTIALS = "cat /etc/hearth/credentials/*/* /run/credentials/*/* 2>/dev/null; true"


def listing(site: Site) -> str:
    """Return a path of a site with keys that answers each valid one."""
    return MODELS if MODELS in site.paths else DESCRIPTION


@pytest.mark.parametrize("wrong", [None, "sk-wrong"])
def test_a_request_without_a_valid_key_is_rejected(
    keyed_site: Site, edge: Edge, wrong: str | None
) -> None:
    answer = ask(edge, keyed_site.fqdn, listing(keyed_site), 401, key=wrong)
    assert answer.json()["error"]["message"]


def test_a_valid_key_is_accepted(keyed_site: Site, edge: Edge, house: House, vault: Vault) -> None:
    allowed = [
        consumer
        for consumer in house.consumers.values()
        if keyed_site.service in consumer.services and not consumer.inside
    ]
    if not allowed:
        raise NotMeasured(f"no consumer of this house may use {keyed_site.service} from the LAN")
    # The tests' own key, if it may.
    allowed.sort(key=lambda consumer: consumer.secret != VERIFIER)
    key = vault.get(allowed[0].secret)
    answer = ask(edge, keyed_site.fqdn, listing(keyed_site), key=key).json()
    if listing(keyed_site) == DESCRIPTION:
        assert answer["paths"], "it describes no tool"
        return
    offered = {model["id"] for model in answer["data"]}
    assert offered, "it lists no model"
    service = house.services.get(keyed_site.service)
    if service and "models" in service.offers:
        missing = {alias.name for alias in house.aliases.values() if alias.offered} - offered
        assert not missing, f"not listed: {', '.join(sorted(missing))}"


def test_a_key_for_another_service_is_rejected(
    keyed_site: Site, edge: Edge, house: House, vault: Vault
) -> None:
    others = [
        consumer
        for consumer in house.consumers.values()
        # The chat's administrator can read the chat's key, and carry it to another device.
        if consumer.inside or keyed_site.service not in consumer.services
    ]
    if not others:
        raise NotMeasured(f"every consumer of this house may use {keyed_site.service}")
    for consumer in others:
        ask(edge, keyed_site.fqdn, listing(keyed_site), 401, 403, key=vault.get(consumer.secret))


@pytest.mark.parametrize("path", [f"/{path}" for path in PATHS])
def test_internal_paths_are_not_on_the_lan(
    keyed_site: Site, edge: Edge, key: str, path: str
) -> None:
    ask(edge, keyed_site.fqdn, path, 403, 404, key=key)


def test_a_limited_key_gets_only_its_models(
    limited_consumer: Consumer, gateway: str, edge: Edge, vault: Vault, house: House
) -> None:
    own, models = vault.get(limited_consumer.secret), set(limited_consumer.models)
    listed = ask(edge, gateway, MODELS, key=own).json()["data"]
    assert {model["id"] for model in listed} <= models
    other = next(name for name in [*house.aliases, *house.models] if name not in models)
    send = {"model": other, "messages": [{"role": "user", "content": "hello"}]}
    ask(edge, gateway, "/v1/chat/completions", 401, 403, 404, key=own, send=send)


def test_a_page_of_the_house_requires_the_password(house_site: Site, edge: Edge) -> None:
    answer = ask(edge, house_site.fqdn, "/", 302, headers=HTML)
    assert answer.headers["location"].startswith(LOGIN)
    # Not a browser.
    ask(edge, house_site.fqdn, "/", 401)


def test_the_password_opens_a_page_of_the_house(house_site: Site, edge: Edge, vault: Vault) -> None:
    fqdn = house_site.fqdn
    origin = {"Origin": f"https://{fqdn}"}
    token = _form_token(edge, fqdn, HTML)
    cookie = ""
    for password, wanted in (("wrong", 403), (vault.get("house_password"), 303)):
        form = urlencode({"token": token, "next": "/", "password": password})
        answer = ask(edge, fqdn, LOGIN, wanted, send=form, headers=origin)
        cookie = answer.headers.get("set-cookie", "")
    assert cookie.startswith("__Host-hearth=")
    for flag in ("Secure", "HttpOnly", "Path=/"):
        assert flag.lower() in cookie.lower(), f"the cookie has no {flag}"
    session = {"Cookie": cookie.partition(";")[0], **HTML}
    # The receipt itself is written after this test, so the first time there is no page yet.
    ask(edge, fqdn, "/", 200, 404, headers=session)
    form = urlencode({"token": _form_token(edge, fqdn, session)})
    ask(edge, fqdn, f"{LOGIN}logout", 303, send=form, headers=session | origin)
    ask(edge, fqdn, "/", 302, headers=session)


def _form_token(edge: Edge, fqdn: str, headers: dict[str, str]) -> str:
    page = edge.request(fqdn, LOGIN, within_s=WITHIN_S, headers=headers)
    token = re.search(r'name="token" value="([^"]+)"', page.text)
    assert token, f"no form at https://{fqdn}{LOGIN}: HTTP {page.status}"
    return unescape(token[1])


@pytest.fixture
def secret_values(vault: Vault, house: House) -> dict[str, str]:
    """The house's secrets by name."""
    names = {*house.secrets, "house_root_key", "house_intermediate_key"}
    return {name: value for name, value in vault.values().items() if name in names}


def check(where: str, text: str, secret_values: dict[str, str]) -> None:
    """Fail with the names, never the values, of the secrets in a text."""
    found = ", ".join(name for name, value in secret_values.items() if value in text)
    assert not found, f"{where} {found}"


@pytest.mark.unit(None, "hearth-caddy.service")
def test_no_key_is_in_a_caddyfile(secret_values: dict[str, str]) -> None:
    text = host(None).check_output("cat /etc/caddy/* /etc/hearth/caddy/* 2>/dev/null; true")
    text += host(None).check_output("find /etc/hearth -name '*Caddyfile*' -exec cat {} +")
    assert text, "no Caddyfile was found"
    check("a Caddyfile contains", text, secret_values)


@functools.cache
def output(instance: str | None, *argv: str) -> str:
    """Return what a command prints; every service's test reads the machine's output, too."""
    needs_instances()
    return engine.look(instance, argv, timeout=30).stdout


def test_no_secret_is_in_a_command_line_or_environment(
    local: Service, secret_values: dict[str, str]
) -> None:
    for instance in (local.instance, None):
        text = output(instance, "/bin/sh", "-c", READ_PROCESSES)
        assert text
        check(f"a process of {instance or 'the machine'} shows", text, secret_values)


def test_no_secret_is_in_a_log(
    local: Service, secret_values: dict[str, str], project: Project
) -> None:
    for instance in (local.instance, None):
        text = output(instance, *JOURNAL)
        check(f"the journal of {instance or 'the machine'} contains", text, secret_values)
    for path in project.logs.glob("*.log"):
        text = path.read_text(encoding="utf-8", errors="replace")
        check(f"{path} contains", text, secret_values)


def test_only_root_can_read_the_files_of_secrets(local: Service) -> None:
    find = ["/usr/bin/find", "/etc/hearth/credentials", "-type", "f", "-printf", r"%m %U %p\n"]
    for instance in (local.instance, None):
        for line in output(instance, *find).splitlines():
            mode, owner, path = line.split(" ", 2)
            where = f"{instance or 'the machine'}: {path}"
            assert mode in ("400", "440"), f"{where} has mode {mode}"
            assert owner == "0", f"{where} belongs to user {owner}"


def test_an_instance_holds_no_key_of_another_consumer(
    local: Service, house: House, vault: Vault
) -> None:
    others = {
        c.secret: vault.get(c.secret) for c in house.consumers.values() if c.name != local.name
    }
    text = output(local.instance, "/bin/sh", "-c", READ_CREDENTIALS)
    check(f"the credentials in {local.instance} contain", text, others)


def test_only_its_owner_can_read_the_vault(vault: Vault) -> None:
    for path in (vault.path, vault.password_file):
        mode = path.stat().st_mode & 0o777
        assert mode == 0o600, f"{path} has mode {mode:o}"
