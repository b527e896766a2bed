"""A key or the password is required everywhere, and no secret is readable where it must not be."""

import re
from html import unescape
from urllib.parse import urlencode

import pytest

from hearth.catalogue.house import Consumer, House, Service, Site
from hearth.clients.edge import Edge
from hearth.machine import engine
from hearth.machine.secrets import Vault
from hearth.project import Project
from hearth.smoke.hosts import host
from hearth.smoke.plugin import NotMeasured

pytestmark = pytest.mark.home

WITHIN_S = 15
LOGIN = "/hearth-login/"
# What a gateway may serve besides models; none of it is for the LAN.
PATHS = ("ui", "ui/", "health", "key/generate", "key/info", "config/yaml", "metrics")
INTERNAL_PATHS = [f"/{path}" for path in PATHS]
LOG_LINES = 20_000
# Prints the command line and environment of every process except its own.
READ_PROCESSES = """
import glob, os, sys
for path in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ"):
    if path.split("/")[2] != str(os.getpid()):
        try:
            sys.stdout.write(open(path, errors="replace").read() + chr(10))
        except OSError:
            pass
"""


@pytest.mark.parametrize("wrong", [None, "sk-wrong"])
def test_a_request_without_a_valid_key_is_rejected(
    keyed_site: Site, edge: Edge, wrong: str | None
) -> None:
    answer = edge.request(keyed_site.fqdn, "/v1/models", key=wrong, within_s=WITHIN_S)
    assert answer.status == 401, f"HTTP {answer.status}"
    assert answer.json()["error"]["message"]


def test_a_valid_key_is_accepted(keyed_site: Site, edge: Edge, key: str, house: House) -> None:
    answer = edge.request(keyed_site.fqdn, "/v1/models", key=key, within_s=WITHIN_S)
    assert answer.status == 200, f"HTTP {answer.status}: {answer.text[:200]}"
    offered = {model["id"] for model in answer.json()["data"]}
    assert offered, "it lists no model"
    service = house.services.get(keyed_site.service)
    if service is None or "models" not in service.offers:
        return
    missing = {alias.name for alias in house.aliases.values() if alias.offered} - offered
    assert not missing, f"not listed: {', '.join(sorted(missing))}"


def test_a_key_for_another_service_is_rejected(
    keyed_site: Site, edge: Edge, house: House, vault: Vault
) -> None:
    others = [c for c in house.consumers.values() if keyed_site.service not in c.services]
    if not others:
        raise NotMeasured(f"every consumer of this house may use {keyed_site.service}")
    for consumer in others:
        own = vault.get(consumer.secret)
        answer = edge.request(keyed_site.fqdn, "/v1/models", key=own, within_s=WITHIN_S)
        assert answer.status in (401, 403), f"{consumer.name}: HTTP {answer.status}"


@pytest.mark.parametrize("path", INTERNAL_PATHS)
def test_internal_paths_are_not_on_the_lan(
    keyed_site: Site, edge: Edge, key: str, path: str
) -> None:
    answer = edge.request(keyed_site.fqdn, path, key=key, within_s=WITHIN_S)
    assert answer.status in (403, 404), f"{path}: HTTP {answer.status}"


def test_a_limited_key_gets_only_its_models(
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


def test_a_page_of_the_house_requires_the_password(house_site: Site, edge: Edge) -> None:
    page = {"Accept": "text/html"}
    answer = edge.request(house_site.fqdn, "/", within_s=WITHIN_S, headers=page)
    assert answer.status == 302, f"HTTP {answer.status}"
    assert answer.headers["location"].startswith(LOGIN)
    not_a_browser = edge.request(house_site.fqdn, "/", within_s=WITHIN_S)
    assert not_a_browser.status == 401, f"HTTP {not_a_browser.status}"


def test_the_password_opens_a_page_of_the_house(house_site: Site, edge: Edge, vault: Vault) -> None:
    fqdn = house_site.fqdn
    origin, html = {"Origin": f"https://{fqdn}"}, {"Accept": "text/html"}
    token = _form_token(edge, fqdn, html)
    cookie = ""
    for password, wanted in (("wrong", 403), (vault.get("house_password"), 303)):
        form = urlencode({"token": token, "next": "/", "password": password})
        answer = edge.request(fqdn, LOGIN, send=form, within_s=WITHIN_S, headers=origin)
        assert answer.status == wanted, f"sign-in: HTTP {answer.status}, not {wanted}"
        cookie = answer.headers.get("set-cookie", "")
    assert cookie.startswith("__Host-hearth=")
    for flag in ("Secure", "HttpOnly", "Path=/"):
        assert flag.lower() in cookie.lower(), f"the cookie has no {flag}"
    session = {"Cookie": cookie.partition(";")[0], **html}
    answer = edge.request(fqdn, "/", within_s=WITHIN_S, headers=session)
    # The receipt itself is written after this test, so the first time there is no page yet.
    assert answer.status in (200, 404), f"HTTP {answer.status} with the cookie"
    form = urlencode({"token": _form_token(edge, fqdn, session)})
    answer = edge.request(
        fqdn, f"{LOGIN}logout", send=form, within_s=WITHIN_S, headers=session | origin
    )
    assert answer.status == 303, f"sign-out: HTTP {answer.status}"
    assert edge.request(fqdn, "/", within_s=WITHIN_S, headers=session).status == 302


def _form_token(edge: Edge, fqdn: str, headers: dict[str, str]) -> str:
    page = edge.request(fqdn, LOGIN, within_s=WITHIN_S, headers=headers)
    token = re.search(r'name="token" value="([^"]+)"', page.text)
    assert token, f"no form at https://{fqdn}{LOGIN}: HTTP {page.status}"
    return unescape(token[1])


@pytest.mark.unit(None, "hearth-caddy.service")
def test_no_key_is_in_a_caddyfile(vault: Vault, house: House) -> None:
    text = host(None).check_output("cat /etc/caddy/* /etc/hearth/caddy/* 2>/dev/null; true")
    text += host(None).check_output("find /etc/hearth -name '*Caddyfile*' -exec cat {} +")
    assert text, "no Caddyfile was found"
    found = _secrets_in(vault, house, text)
    assert not found, f"a Caddyfile contains {found}"


def test_no_secret_is_in_a_command_line_or_environment(
    local: Service, vault: Vault, house: House
) -> None:
    for instance in (local.instance, None):
        argv = ["/usr/bin/python3", "-I", "-c", READ_PROCESSES]
        text = engine.execute(instance, argv, timeout=30).stdout
        assert text
        found = _secrets_in(vault, house, text)
        assert not found, f"a process of {instance or 'the machine'} shows {found}"


def test_no_secret_is_in_a_log(
    local: Service, vault: Vault, house: House, project: Project
) -> None:
    argv = ["/usr/bin/journalctl", "--no-pager", "--boot", "--output=cat", f"--lines={LOG_LINES}"]
    for instance in (local.instance, None):
        found = _secrets_in(vault, house, engine.execute(instance, argv, timeout=30).stdout)
        assert not found, f"the journal of {instance or 'the machine'} contains {found}"
    for path in project.logs.glob("*.log"):
        found = _secrets_in(vault, house, path.read_text(encoding="utf-8", errors="replace"))
        assert not found, f"{path} contains {found}"


def _secrets_in(vault: Vault, house: House, text: str) -> str:
    """Return the names, never the values, of the secrets in a text."""
    secret = {*house.secrets, "house_root_key", "house_intermediate_key"}
    return ", ".join(n for n, value in vault.values().items() if n in secret and value in text)


def test_only_root_can_read_the_files_of_secrets(local: Service) -> None:
    command = "find /etc/hearth/credentials -type f -printf '%m %U %p\\n' 2>/dev/null; true"
    for instance in (local.instance, None):
        for line in host(instance).check_output(command).splitlines():
            mode, owner, path = line.split(" ", 2)
            where = f"{instance or 'the machine'}: {path}"
            assert mode in ("400", "440"), f"{where} has mode {mode}"
            assert owner == "0", f"{where} belongs to user {owner}"


def test_only_its_owner_can_read_the_vault(vault: Vault) -> None:
    for path in (vault.path, vault.password_file):
        mode = path.stat().st_mode & 0o777
        assert mode == 0o600, f"{path} has mode {mode:o}"
