"""The mock upstreams' own authority, which the lab trusts in place of the world's."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.mock_upstreams import names

AUTHORITY_DAYS = 3650
SERVER_DAYS = 397
RENEW_DAYS = 30


def authority_path(cache: Path) -> Path:
    """Return the authority's certificate, which a machine must trust to use the mock upstreams."""
    return cache / "tls" / "authority.crt"


def prepare(cache: Path, now: datetime.datetime) -> tuple[Path, Path]:
    """Return (certificate, key) of the server; replace missing, expiring or outdated ones.

    The authority lasts as long as cache and names do, so that a saved lab still trusts it.
    """
    folder = cache / "tls"
    folder.mkdir(parents=True, exist_ok=True)
    certificate, key = folder / "server.crt", folder / "server.key"
    root, root_key = _authority(folder, now)
    if not (certificate.exists() and key.exists() and _serves(certificate, root, now)):
        server_key = ec.generate_private_key(ec.SECP256R1())
        signed = _server_certificate(root, root_key, server_key, now)
        _write_key(key, server_key)
        _write_certificate(certificate, signed)
    return certificate, key


def _serves(certificate: Path, root: x509.Certificate, now: datetime.datetime) -> bool:
    """Return whether this certificate has all names, is from this root, and lasts long enough."""
    found = x509.load_pem_x509_certificate(certificate.read_bytes())
    listed = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    lasting = found.not_valid_after_utc - now > datetime.timedelta(days=RENEW_DAYS)
    ours = set(listed.get_values_for_type(x509.DNSName)) == set(names.ALL)
    try:
        found.verify_directly_issued_by(root)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return ours and lasting


def _authority(
    folder: Path, now: datetime.datetime
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return the authority, made on first use and when it may not sign for all the names."""
    certificate, key_path = authority_path(folder.parent), folder / "authority.key"
    # Name constraints limit the trust in this authority to the simulated names.
    limits = x509.NameConstraints([x509.DNSName(host) for host in names.ALL], None)
    if certificate.exists() and key_path.exists():
        key = serialization.load_pem_private_key(key_path.read_bytes(), password=None)
        known = x509.load_pem_x509_certificate(certificate.read_bytes())
        held = known.extensions.get_extension_for_class(x509.NameConstraints).value
        if isinstance(key, ec.EllipticCurvePrivateKey) and held == limits:
            return known, key
    fresh = ec.generate_private_key(ec.SECP256R1())
    name = _name("Hearth lab mock upstreams")
    signed = (
        _builder(name, name, fresh.public_key(), now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(limits, critical=True)
        .sign(fresh, hashes.SHA256())
    )
    _write_key(key_path, fresh)
    _write_certificate(certificate, signed)
    return signed, fresh


def _server_certificate(
    root: x509.Certificate,
    root_key: ec.EllipticCurvePrivateKey,
    key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
) -> x509.Certificate:
    """Return the server's certificate for every simulated name."""
    hosts = x509.SubjectAlternativeName([x509.DNSName(host) for host in names.ALL])
    return (
        _builder(_name("mock upstreams"), root.subject, key.public_key(), now, SERVER_DAYS)
        .add_extension(hosts, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key()),
            critical=False,
        )
        .sign(root_key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    days: int,
) -> x509.CertificateBuilder:
    """Return the common part of all certificates."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # A machine whose clock is slightly behind must not reject it.
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, signs: bool) -> x509.KeyUsage:
    """Return the key usage of an authority or of a server."""
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write_certificate(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Write a private key that only its owner can ever read."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
