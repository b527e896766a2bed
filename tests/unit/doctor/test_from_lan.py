"""What a phone sees: each DNS server, each port, each certificate, with real TLS."""

import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hearth.doctor import from_lan
from hearth.machine import pki
from hearth.project import Project
from tests.unit.doctor.conftest import HOUSE

NOW = datetime.now(UTC)
SITES = tuple(site for site in HOUSE.sites if site.name in ("chat", "llm"))
SMALL = replace(HOUSE, sites=SITES)


def leaf(authority: pki.Authority, name: str, folder: Path) -> Path:
    """Write the chain and the key of one site, as Caddy has them."""
    key = ec.generate_private_key(ec.SECP256R1())
    signer = serialization.load_pem_private_key(authority.intermediate_key_pem.encode(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate(authority.intermediate_cert_pem.encode())
    own = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(minutes=5))
        .not_valid_after(NOW + timedelta(days=7))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    path = folder / "chain.pem"
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    path.write_bytes(
        key.private_bytes(pem, form, plain)
        + made.public_bytes(pem)
        + authority.intermediate_cert_pem.encode()
    )
    return path


@pytest.fixture
def authority(tmp_path: Path) -> pki.Authority:
    made = pki.make_house_authority("lan", NOW)
    (tmp_path / "root.crt").write_text(made.root_cert_pem)
    return made


@pytest.fixture
def port(authority: pki.Authority, tmp_path: Path) -> Iterator[int]:
    """A reverse proxy that has a certificate of chat.lan only."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(leaf(authority, "chat.lan", tmp_path))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def look(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    answers: dict[str, tuple[int, list[str]]],
    port: int,
    here: bool = True,
) -> dict[str, from_lan.LanRow]:
    trust = tmp_path / "trust.json"
    if here:
        trust.touch()
    monkeypatch.setattr(from_lan, "TRUST_CONFIG", trust)
    monkeypatch.setattr(from_lan, "ROOT_CERTIFICATE", tmp_path / "root.crt")
    monkeypatch.setattr(from_lan, "_HTTPS", port)
    monkeypatch.setattr(from_lan, "_PORTS", (port, 1))
    monkeypatch.setattr("hearth.doctor.from_lan.facts.nameservers", lambda: [*answers])
    monkeypatch.setattr(
        "hearth.doctor.from_lan.probe.resolve", lambda server, *_: answers.get(server, (-1, []))
    )
    monkeypatch.setattr(Project, "house", lambda _: replace_address(here))
    seen = from_lan.look(Project(tmp_path))
    assert seen.place.startswith("the house itself" if here else "this computer")
    return {row.what: row for row in seen.rows}


def replace_address(here: bool) -> Any:
    address = "127.0.0.1" if here else "auto"
    return replace(SMALL, machine=replace(SMALL.machine, lan_address=address))


def test_on_the_house(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, port: int) -> None:
    answers = {"127.0.0.1": (0, ["127.0.0.1"]), "10.0.0.1": (3, []), "10.0.0.2": (0, ["10.0.0.7"])}
    rows = look(monkeypatch, tmp_path, answers, port)
    assert rows["DNS server 127.0.0.1"].good
    # A router that knows nothing of the house is usual; one that leads astray is not.
    assert rows["DNS server 10.0.0.1"].good
    assert not rows["DNS server 10.0.0.2"].good
    assert rows[f"127.0.0.1 port {port}"].good
    assert not rows["127.0.0.1 port 1"].good
    assert rows["https://chat.lan"].good, rows["https://chat.lan"].text
    assert not rows["https://llm.lan"].good
    assert "does not confirm it" in rows["https://llm.lan"].text


def test_on_another_computer_that_does_not_trust_the_house(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, port: int
) -> None:
    rows = look(monkeypatch, tmp_path, {"10.0.0.1": (0, ["127.0.0.1"])}, port, here=False)
    assert rows["DNS server 10.0.0.1"].good
    assert "this computer does not confirm it" in rows["https://chat.lan"].text


def test_on_another_computer_that_does_not_find_the_house(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, port: int
) -> None:
    rows = look(monkeypatch, tmp_path, {"10.0.0.1": (3, [])}, port, here=False)
    assert not rows["DNS server 10.0.0.1"].good
    assert not rows["address"].good
