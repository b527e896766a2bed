"""The page of trust hands out this house's root, proves it, and the certificates are not old."""

import secrets
import socket
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from hearth.catalogue.house import House, Site
from hearth.clients.edge import Edge
from hearth.clients.websocket import opened
from hearth.paths import ROOT_CERTIFICATE
from hearth.smoke.plugin import Notes

pytestmark = [
    pytest.mark.home,
    pytest.mark.unit(None, "hearth-trust.service"),
    pytest.mark.unit(None, "hearth-caddy.service"),
]

WITHIN_S = 10
# Caddy renews at a third and looks every few minutes: what has so little left was not renewed.
LEAST_OF_LIFE = 0.2
INTERMEDIATE = ROOT_CERTIFICATE.with_name("intermediate.crt")
SOON = timedelta(days=60)


def plain(edge: Edge, host: str, path: str) -> tuple[int, bytes]:
    """Ask port 80 as a device does that has nothing of the house's; return status and body."""
    said = b""
    with socket.create_connection((edge.address, 80), timeout=WITHIN_S) as plug:
        plug.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        while piece := plug.recv(65536):
            said += piece
    head, _, body = said.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def test_the_root_is_handed_out_without_names_and_without_trust(
    plain_site: Site, edge: Edge
) -> None:
    for host in (plain_site.fqdn, edge.address):
        status, body = plain(edge, host, "/hearth-root.crt")
        assert (status, body) == (200, ROOT_CERTIFICATE.read_bytes()), f"http://{host}"
        status, body = plain(edge, host, "/")
        assert status == 200
        assert plain_site.fqdn.encode() in body


def test_at_the_bare_address_nothing_else_is_served(plain_site: Site, edge: Edge) -> None:
    for path in ("/v1/models", "/receipt.json", "/hearth-login/", "/api/v1/auths/signin"):
        status, _ = plain(edge, edge.address, path)
        assert status == 404, f"http://{edge.address}{path} got HTTP {status}"


def test_who_believes_the_house_has_a_live_connection(plain_site: Site, edge: Edge) -> None:
    assert edge.request(plain_site.fqdn, "/check", within_s=WITHIN_S).json() == {"house": "Hearth"}
    said = secrets.token_hex()
    url = f"wss://{plain_site.fqdn}/echo"
    with opened(
        url, (edge.address, 443), edge.trust(), WITHIN_S, origin=f"https://{plain_site.fqdn}"
    ) as line:
        line.send(said)
        assert line.recv(WITHIN_S) == said


def test_a_browser_remembers_https_for_every_name_but_the_plain_one(site: Site, edge: Edge) -> None:
    answer = edge.request(site.fqdn, "/", within_s=WITHIN_S)
    assert ("strict-transport-security" in answer.headers) is not site.plain


def test_a_certificate_was_renewed_in_time(site: Site, edge: Edge, notes: Notes) -> None:
    with (
        socket.create_connection((edge.address, 443), timeout=WITHIN_S) as plug,
        edge.trust().wrap_socket(plug, server_hostname=site.fqdn) as secure,
    ):
        shown = x509.load_der_x509_certificate(secure.getpeercert(binary_form=True) or b"")
    left = shown.not_valid_after_utc - datetime.now(UTC)
    share = left / (shown.not_valid_after_utc - shown.not_valid_before_utc)
    notes.sample("life left of the sites' certificates", "days", left / timedelta(days=1))
    assert share >= LEAST_OF_LIFE, f"{left} left of a certificate that Caddy should have renewed"


def test_the_authority_lasts(house: House, notes: Notes) -> None:
    for name, path in (("root", ROOT_CERTIFICATE), ("intermediate", INTERMEDIATE)):
        shown = x509.load_pem_x509_certificate(path.read_bytes())
        left = shown.not_valid_after_utc - datetime.now(UTC)
        notes.figure(f"life left of the {name}", "days", [left / timedelta(days=1)])
        assert left > timedelta(0), f"the {name} has ended: run `hearth up`"
        if left < SOON:
            after = "every device must be given the new one" if name == "root" else ""
            notes.remark(f"the {name} ends in {left.days} days: run `hearth up` {after}".rstrip())
