"""Certificates that a thief of one of the house's keys could make."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LEAF_KEY = 0x48454152 << 200  # any number: what these leaves guard is nothing
LEAF_KEY_PEM = (
    ec.derive_private_key(LEAF_KEY, ec.SECP256R1())
    .private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    .decode()
)


def leaf_for(name: str, cert_pem: str, key_pem: str, ca: bool = False) -> str:
    """A certificate for a name or an address, signed with this key."""
    now = datetime.now(UTC).replace(microsecond=0)
    issuer = x509.load_pem_x509_certificate(cert_pem.encode())
    signer = serialization.load_pem_private_key(key_pem.encode(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    try:
        san: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        san = x509.DNSName(name)
    key = ec.derive_private_key(LEAF_KEY, ec.SECP256R1())
    usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.EMAIL_PROTECTION]
    builder = (
        x509.CertificateBuilder()
        .subject_name(
            x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "sub" if ca else "leaf")])
        )
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=7))
        .add_extension(x509.SubjectAlternativeName([san]), critical=False)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    cert = builder.sign(signer, hashes.SHA256())
    return cert.public_bytes(serialization.Encoding.PEM).decode()
