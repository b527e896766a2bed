"""The house's own root and intermediate, good for its domain and for nothing else.

Both certificates carry critical name constraints: permitted is the domain, excluded are all
addresses. So a device that trusts the root trusts it for the house's names only (RFC 5280,
4.2.1.10). The machine gets the intermediate and its key; the root's key stays in the vault.
"""

import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from datetime import datetime, timedelta
from ipaddress import ip_network
from typing import Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ROOT_LIFE = timedelta(days=3652)
# Renewed on the first run within its last year; without a run it is valid for three.
INTERMEDIATE_LIFE = timedelta(days=1096)
# A device whose clock is a little late must still accept a new certificate.
_SKEW = timedelta(hours=1)

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")


class PkiError(Exception):
    """One line for a person: what is wrong with the house's certificates, and what to do."""


@dataclass(frozen=True, slots=True)
class Authority:
    """The house's root and intermediate as PEM text; the keys never show in a repr."""

    root_cert_pem: str
    root_key_pem: str = field(repr=False)
    intermediate_cert_pem: str
    intermediate_key_pem: str = field(repr=False)

    def as_secrets(self) -> dict[str, str]:
        """Return the four secrets under which the vault keeps this authority."""
        return dict(zip(SECRETS, astuple(self), strict=True))


SECRETS = ("house_root_cert", "house_root_key", "house_intermediate_cert", "house_intermediate_key")


def make_house_authority(domain: str, now: datetime) -> Authority:
    """Make a root (10 years) and an intermediate (3 years) for `domain`; `now` has a zone."""
    if not _DOMAIN.fullmatch(domain):
        raise PkiError(f"domain {domain!r}: write a DNS name in lower case, e.g. lan")
    key = ec.generate_private_key(ec.SECP256R1())
    # The year tells two roots of one house apart in a phone's list.
    name = _name(f"Hearth root for {domain} ({now:%Y-%m-%d})")
    builder = _authority_builder(domain, name, name, key.public_key(), path_length=1)
    builder = builder.not_valid_before(now - _SKEW).not_valid_after(now + ROOT_LIFE)
    root = builder.sign(key, hashes.SHA256())
    return renew_intermediate(Authority(_cert_pem(root), _key_pem(key), "", ""), now)


def renew_intermediate(authority: Authority, now: datetime) -> Authority:
    """Return the same root with a new intermediate and key; devices need no change."""
    root = _load_cert(authority.root_cert_pem)
    root_key = serialization.load_pem_private_key(authority.root_key_pem.encode(), None)
    if not isinstance(root_key, ec.EllipticCurvePrivateKey) or (
        root_key.public_key() != root.public_key()
    ):
        raise PkiError("house_root_key is not the key of house_root_cert: put back the old vault")
    domain, key = domain_of(authority.root_cert_pem), ec.generate_private_key(ec.SECP256R1())
    name = _name(f"Hearth intermediate for {domain} ({now:%Y-%m-%d})")
    builder = _authority_builder(domain, name, root.subject, key.public_key(), path_length=0)
    own = root.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False
    )
    # Name constraints do not cover signed mail or programs; this does: servers only.
    builder = builder.add_extension(
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
    )
    end = min(now + INTERMEDIATE_LIFE, root.not_valid_after_utc)
    builder = builder.not_valid_before(now - _SKEW).not_valid_after(end)
    cert = builder.sign(root_key, hashes.SHA256())
    return replace(
        authority, intermediate_cert_pem=_cert_pem(cert), intermediate_key_pem=_key_pem(key)
    )


def needs_renewal(cert_pem: str, now: datetime) -> bool:
    """Whether less than a third of this certificate's life is left."""
    return life_left(cert_pem, now) < 1 / 3


def life_left(cert_pem: str, now: datetime) -> float:
    """Return which part of its life this certificate has left: 1 when new, below 0 once ended."""
    cert = _load_cert(cert_pem)
    life = cert.not_valid_after_utc - cert.not_valid_before_utc
    return (cert.not_valid_after_utc - now) / life


def ensure_authority(
    values: Mapping[str, str], domain: str, now: datetime
) -> tuple[Authority, Literal["kept", "renewed", "made"]]:
    """Return the house's authority from the vault's values; make it if missing, renew it when due.

    `made` also after the domain changed or the root expired, since the old root is then useless;
    the caller stores it and reports it, because every device must install the new root.

    Raises:
        PkiError: some of the four secrets are missing; a lost root is never replaced silently.
    """
    missing = [name for name in SECRETS if name not in values]
    if missing and len(missing) < len(SECRETS):
        raise PkiError(
            f"the vault holds the house's certificates without {', '.join(missing)}: put the vault "
            "back from a backup, or remove all four and give every device the new root"
        )
    if missing or domain_of(root := values["house_root_cert"]) != domain:
        return make_house_authority(domain, now), "made"
    # The first run in its last month makes a new one, while the old one is still valid.
    if not_after(root) - now <= timedelta(days=30):
        return make_house_authority(domain, now), "made"
    authority = Authority(*(values[name] for name in SECRETS))
    if _is_good_intermediate(authority, now):
        return authority, "kept"
    return renew_intermediate(authority, now), "renewed"


def domain_of(cert_pem: str) -> str:
    """Return the domain that this root or intermediate is limited to."""
    constraints = _load_cert(cert_pem).extensions.get_extension_for_class(x509.NameConstraints)
    return ",".join(str(name.value) for name in constraints.value.permitted_subtrees or [])


def fingerprint(cert_pem: str) -> str:
    """Return the SHA-256 fingerprint as devices show it: `AB:CD:…`."""
    return _load_cert(cert_pem).fingerprint(hashes.SHA256()).hex(":").upper()


def not_after(cert_pem: str) -> datetime:
    """Return when this certificate expires, in UTC."""
    return _load_cert(cert_pem).not_valid_after_utc


def _is_good_intermediate(authority: Authority, now: datetime) -> bool:
    """Whether this root signed the intermediate, which is far from its expiry."""
    try:
        cert = _load_cert(authority.intermediate_cert_pem)
        cert.verify_directly_issued_by(_load_cert(authority.root_cert_pem))
    except (ValueError, TypeError, InvalidSignature):
        return False
    # The last one expires with its root; renewing it again and again would not help.
    ends_with_root = cert.not_valid_after_utc == not_after(authority.root_cert_pem)
    return ends_with_root or not needs_renewal(authority.intermediate_cert_pem, now)


def _authority_builder(
    domain: str,
    name: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    path_length: int,
) -> x509.CertificateBuilder:
    """Return the extensions of both root and intermediate, the constraints above all."""
    everywhere = [x509.IPAddress(ip_network(network)) for network in ("0.0.0.0/0", "::/0")]
    constraints = x509.NameConstraints([x509.DNSName(domain)], everywhere)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
        .add_extension(_SIGNS_CERTIFICATES, critical=True)
        .add_extension(constraints, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


_SIGNS_CERTIFICATES = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _load_cert(pem: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem.encode())
    except ValueError:
        raise PkiError("not a certificate in PEM form: put back the vault from a backup") from None


def _cert_pem(cert: x509.Certificate) -> str:
    return cert.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, plain).decode()
