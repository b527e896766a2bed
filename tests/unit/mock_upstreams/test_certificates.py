"""The mock upstreams' authority stays, signs for the played names only, and its key is private."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from cryptography import x509

from tests.mock_upstreams import certificates, names

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_server_is_signed_for_every_name(tmp_path: Path) -> None:
    server = load(certificates.prepare(tmp_path, NOW)[0])
    server.verify_directly_issued_by(load(certificates.authority_path(tmp_path)))
    listed = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(listed.get_values_for_type(x509.DNSName)) == set(names.ALL)


def test_keys_are_for_their_owner(tmp_path: Path) -> None:
    certificates.prepare(tmp_path, NOW)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "tls").glob("*.key")}
    assert modes == {"authority.key": 0o600, "server.key": 0o600}


def test_authority_outlives_the_servers_certificate(tmp_path: Path) -> None:
    first = certificates.prepare(tmp_path, NOW)[0].read_bytes()
    root = certificates.authority_path(tmp_path).read_bytes()
    assert certificates.prepare(tmp_path, NOW)[0].read_bytes() == first
    later = NOW + datetime.timedelta(days=380)
    assert certificates.prepare(tmp_path, later)[0].read_bytes() != first
    assert certificates.authority_path(tmp_path).read_bytes() == root


def test_another_name_needs_another_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates.prepare(tmp_path, NOW)
    root = certificates.authority_path(tmp_path).read_bytes()
    monkeypatch.setattr(names, "ALL", (*names.ALL, "example.org"))
    server = load(certificates.prepare(tmp_path, NOW)[0])
    assert certificates.authority_path(tmp_path).read_bytes() != root
    server.verify_directly_issued_by(load(certificates.authority_path(tmp_path)))
