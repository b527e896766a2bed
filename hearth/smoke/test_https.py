"""HTTPS is the house's own, a foreign name reaches no backend, and new devices get the root."""

import secrets
import socket
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import certifi
import httpx
import pytest
from cryptography import x509

from hearth.catalogue.house import House, Site
from hearth.clients import ClientError
from hearth.clients.endpoints import Edge, Endpoint
from hearth.clients.websocket import opened
from hearth.paths import ROOT_CERTIFICATE
from hearth.smoke.hosts import ask
from hearth.smoke.plugin import Notes

pytestmark = [pytest.mark.home, pytest.mark.unit(None, "hearth-caddy.service")]
trust_page = pytest.mark.unit(None, "hearth-trust.service")

WITHIN_S = 10
NO_ANSWER = (httpx.NetworkError, httpx.RemoteProtocolError)
NO_BACKEND, REDIRECTS = (404, 421), (301, 302, 307, 308)
# Caddy renews at a third and checks every few minutes: with so little left it did not renew.
LEAST_OF_LIFE = 0.2
INTERMEDIATE = ROOT_CERTIFICATE.with_name("intermediate.crt")
SOON = timedelta(days=60)


def handshake(edge: Edge, context: ssl.SSLContext, name: str) -> ssl.SSLSocket:
    """Complete a TLS handshake with the reverse proxy for `name`."""
    connection = socket.create_connection((edge.address, 443), timeout=WITHIN_S)
    return context.wrap_socket(connection, server_hostname=name)


def get(edge: Edge, host: str, path: str) -> tuple[int, bytes]:
    """Request a page over plain HTTP, as a device does that trusts nothing yet.

    Return the status and the body; 0 where the connection ends without an answer.
    """
    try:
        answer = Endpoint(host, f"http://{edge.address}", host=host).send("GET", path, WITHIN_S)
    except ClientError:
        return 0, b""
    return answer.status_code, answer.content


def test_the_house_root_verifies_the_site(site: Site, edge: Edge) -> None:
    with handshake(edge, edge.trust(), site.fqdn) as connection:
        certificate: Any = connection.getpeercert()
        assert ("DNS", site.fqdn) in certificate["subjectAltName"]


def test_without_the_house_root_the_site_is_not_trusted(site: Site, edge: Edge) -> None:
    # Only the public roots: the machine itself may rightly trust the house's root as well.
    public = ssl.create_default_context(cafile=certifi.where())
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(edge, public, site.fqdn)


def test_an_unknown_name_reaches_no_backend(edge: Edge, house: House, key: str) -> None:
    url = f"https://{edge.address}/v1/models"
    for name in (f"hearth-no-such-name.{house.machine.domain}", "example.org", None):
        headers = {"Host": name or edge.address, "Authorization": f"Bearer {key}"}
        server_name = {"sni_hostname": name} if name else {}
        # A connection for each name, and any certificate will do: which backend answers, counts.
        with (
            suppress(*NO_ANSWER),
            httpx.Client(verify=False, trust_env=False, timeout=WITHIN_S) as client,  # noqa: S501
        ):
            answer = client.get(url, headers=headers, extensions=server_name)
            what = f"HTTP {answer.status_code} {answer.content[:80]!r}"
            assert answer.status_code in NO_BACKEND, f"{name or 'the address'} got {what}"


@pytest.mark.parametrize("host", ["example.org", "{address}", "{address}:443", "localhost"])
def test_a_foreign_host_header_reaches_no_backend(
    keyed_site: Site, edge: Edge, key: str, host: str
) -> None:
    # With a valid key: only the name is wrong.
    headers = {"Host": host.format(address=edge.address)}
    with suppress(ClientError):
        answer = ask(edge, keyed_site.fqdn, "/v1/models", 400, 404, 421, key=key, headers=headers)
        assert b"data" not in answer.body


def test_plain_http_reaches_no_backend(edge: Edge, house: House) -> None:
    for host in (edge.address, "example.org", house.sites[0].fqdn):
        status, _ = get(edge, host, "/v1/models")
        assert status in (0, *NO_BACKEND, *REDIRECTS), f"http://{host} got HTTP {status}"


@trust_page
def test_a_new_device_gets_the_root_by_name_and_by_address(plain_site: Site, edge: Edge) -> None:
    for host in (plain_site.fqdn, edge.address):
        root = get(edge, host, "/hearth-root.crt")
        assert root == (200, ROOT_CERTIFICATE.read_bytes()), f"http://{host}"
        status, page = get(edge, host, "/")
        assert status == 200
        assert plain_site.fqdn.encode() in page


@trust_page
def test_the_address_serves_only_the_trust_page(plain_site: Site, edge: Edge) -> None:
    for path in ("/v1/models", "/receipt.json", "/hearth-login/", "/api/v1/auths/signin"):
        status, _ = get(edge, edge.address, path)
        assert status == 404, f"http://{edge.address}{path} got HTTP {status}"


@trust_page
def test_a_device_that_trusts_the_house_gets_a_websocket(plain_site: Site, edge: Edge) -> None:
    fqdn = plain_site.fqdn
    assert ask(edge, fqdn, "/check").json() == {"house": "Hearth"}
    sent, origin = secrets.token_hex(), f"https://{fqdn}"
    with opened(edge.endpoint(fqdn), "/echo", WITHIN_S, origin=origin) as connection:
        connection.send(sent)
        assert connection.recv(WITHIN_S) == sent


def test_browsers_remember_https_except_for_the_trust_page(site: Site, edge: Edge) -> None:
    answer = edge.request(site.fqdn, "/", within_s=WITHIN_S)
    assert ("strict-transport-security" in answer.headers) is not site.plain


def test_the_certificate_was_renewed_in_time(site: Site, edge: Edge, notes: Notes) -> None:
    with handshake(edge, edge.trust(), site.fqdn) as connection:
        shown = x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"")
    left = shown.not_valid_after_utc - datetime.now(UTC)
    share = left / (shown.not_valid_after_utc - shown.not_valid_before_utc)
    notes.sample("life left of the sites' certificates", "days", left / timedelta(days=1))
    assert share >= LEAST_OF_LIFE, f"{left} left of a certificate that Caddy should have renewed"


def test_the_house_ca_is_valid(notes: Notes) -> None:
    for name, path in (("root", ROOT_CERTIFICATE), ("intermediate", INTERMEDIATE)):
        shown = x509.load_pem_x509_certificate(path.read_bytes())
        left = shown.not_valid_after_utc - datetime.now(UTC)
        notes.figure(f"life left of the {name}", "days", [left / timedelta(days=1)])
        assert left > timedelta(0), f"the {name} has expired: run `hearth up`"
        if left < SOON:
            after = " and install the new one on every device" if name == "root" else ""
            notes.remark(f"the {name} expires in {left.days} days: run `hearth up`{after}")
