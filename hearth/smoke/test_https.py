"""HTTPS is the house's own, and what does not ask for a site by its name reaches no backend."""

import socket
import ssl
from typing import Any

import certifi
import pytest

from hearth.catalogue.house import House, Site
from hearth.clients import ClientError
from hearth.clients.edge import Edge

pytestmark = [pytest.mark.home, pytest.mark.unit(None, "hearth-caddy.service")]

WITHIN_S = 10


def shake(edge: Edge, context: ssl.SSLContext, name: str | None) -> ssl.SSLSocket:
    """Shake hands with the front door, asking for `name`."""
    plug = socket.create_connection((edge.address, 443), timeout=WITHIN_S)
    return context.wrap_socket(plug, server_hostname=name)


def blind() -> ssl.SSLContext:
    """Return a context that believes anybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def test_the_root_vouches_for_the_site(site: Site, edge: Edge) -> None:
    with shake(edge, edge.trust(), site.fqdn) as secure:
        certificate: Any = secure.getpeercert()
        assert ("DNS", site.fqdn) in certificate["subjectAltName"]


def test_without_the_root_nobody_believes_the_site(site: Site, edge: Edge) -> None:
    # The public roots: the machine itself may rightly trust the house's as well.
    strangers = ssl.create_default_context(cafile=certifi.where())
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(edge, strangers, site.fqdn)


def test_an_unknown_name_reaches_no_backend(edge: Edge, house: House, key: str) -> None:
    unknown = f"hearth-no-such-name.{house.machine.domain}"
    for name in (unknown, "example.org", None):
        host = name or edge.address
        request = f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n\r\n"
        try:
            with shake(edge, blind(), name) as secure:
                secure.sendall(request.encode())
                said = secure.recv(4096)
        except (ssl.SSLError, ConnectionError):
            continue
        assert _closed(said), f"{name or 'a bare address'} got {said[:80]!r}"


def _closed(said: bytes) -> bool:
    """Say whether an answer is none, or one that no backend gives."""
    return said.partition(b" ")[2][:3] in (b"", b"404", b"421")


@pytest.mark.parametrize("host", ["example.org", "{address}", "{address}:443", "localhost"])
def test_a_foreign_host_reaches_no_backend(
    keyed_site: Site, edge: Edge, key: str, host: str
) -> None:
    # With a good key: only the name is wrong.
    foreign = host.format(address=edge.address)
    try:
        answer = edge.request(
            keyed_site.fqdn, "/v1/models", key=key, within_s=WITHIN_S, headers={"Host": foreign}
        )
    except ClientError:
        return
    assert answer.status in (400, 404, 421), f"Host {foreign} got HTTP {answer.status}"
    assert b"data" not in answer.body


def test_plain_http_serves_nothing(edge: Edge, house: House) -> None:
    for host in (edge.address, "example.org", house.sites[0].fqdn):
        said = _plain(edge.address, f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\n\r\n")
        status = said.partition(b" ")[2][:3]
        assert status in (b"", b"301", b"302", b"307", b"308", b"404", b"421"), (
            f"http://{host} got {said[:80]!r}"
        )


def _plain(address: str, request: str) -> bytes:
    """Return the beginning of what port 80 says; nothing when it does not even answer."""
    try:
        with socket.create_connection((address, 80), timeout=WITHIN_S) as plug:
            plug.sendall(request.encode())
            return plug.recv(4096)
    except ConnectionError:
        return b""
