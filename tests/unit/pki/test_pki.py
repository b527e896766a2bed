"""The house's certificates are good for its names and for nothing else: OpenSSL is the judge."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from hearth.machine.pki import (
    SECRETS,
    Authority,
    PkiError,
    domain_of,
    ensure_authority,
    fingerprint,
    make_house_authority,
    needs_renewal,
    not_after,
    renew_intermediate,
)
from tests.forged import LEAF_KEY_PEM, leaf_for

NOW = datetime.now(UTC).replace(microsecond=0)


def ensure(held: dict[str, str], domain: str, now: datetime) -> tuple[Authority, str]:
    """Ensure the authority of these secrets, and store it as the caller does."""
    authority, done = ensure_authority(held, domain, now)
    held.update(authority.as_secrets())
    return authority, done


@pytest.fixture(scope="module")
def house() -> Authority:
    return make_house_authority("lan", NOW)


def verify(
    folder: Path, authority: Authority, leaf: str, *extra: str, intermediates: str | None = None
) -> str:
    """Return what `openssl verify` prints about `leaf`, with the root as the only trust."""
    chain = authority.intermediate_cert_pem if intermediates is None else intermediates
    files = {"root.crt": authority.root_cert_pem, "chain.crt": chain, "leaf.crt": leaf}
    for name, text in files.items():
        (folder / name).write_text(text)
    command = ["openssl", "verify", "-x509_strict", "-no-CApath", "-no-CAstore"]
    command += ["-CAfile", "root.crt", "-untrusted", "chain.crt", *extra, "leaf.crt"]
    done = subprocess.run(
        command, cwd=folder, timeout=20, capture_output=True, text=True, check=False
    )
    return (done.stdout + done.stderr).strip()


def issued(authority: Authority, name: str) -> str:
    return leaf_for(name, authority.intermediate_cert_pem, authority.intermediate_key_pem)


@pytest.mark.parametrize("name", ["llm.lan", "lan", "a.b.lan"])
def test_names_of_the_house_verify(house: Authority, tmp_path: Path, name: str) -> None:
    printed = verify(tmp_path, house, issued(house, name), "-purpose", "sslserver")
    assert printed == "leaf.crt: OK", printed


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("example.com", "permitted subtree violation"),
        ("evil.lan.example.com", "permitted subtree violation"),
        ("evillan", "permitted subtree violation"),
        ("home.arpa", "permitted subtree violation"),
        ("10.0.0.1", "excluded subtree violation"),
        ("::1", "excluded subtree violation"),
    ],
)
def test_all_other_names_are_rejected(
    house: Authority, tmp_path: Path, name: str, reason: str
) -> None:
    assert reason in verify(tmp_path, house, issued(house, name))
    # Even a thief of the root's key could not do it.
    direct = leaf_for(name, house.root_cert_pem, house.root_key_pem)
    assert reason in verify(tmp_path, house, direct)


def test_another_domain_works_the_same_way(tmp_path: Path) -> None:
    house = make_house_authority("home.arpa", NOW)
    assert verify(tmp_path, house, issued(house, "llm.home.arpa")) == "leaf.crt: OK"
    for name in ("llm.lan", "evilhome.arpa", "arpa"):
        assert "permitted subtree violation" in verify(tmp_path, house, issued(house, name))


def test_the_root_alone_is_the_trust(house: Authority, tmp_path: Path) -> None:
    leaf = issued(house, "llm.lan")
    other = make_house_authority("lan", NOW)
    assert "unable to get local issuer" in verify(tmp_path, other, leaf)
    assert "unable to get local issuer" in verify(
        tmp_path, house, leaf, intermediates=house.root_cert_pem
    )


def test_the_intermediate_cannot_sign_an_authority(house: Authority, tmp_path: Path) -> None:
    sub = leaf_for("lan", house.intermediate_cert_pem, house.intermediate_key_pem, ca=True)
    leaf = leaf_for("llm.lan", sub, LEAF_KEY_PEM)
    printed = verify(tmp_path, house, leaf, intermediates=house.intermediate_cert_pem + sub)
    assert "path length constraint exceeded" in printed


def test_the_intermediate_cannot_sign_for_mail(house: Authority, tmp_path: Path) -> None:
    printed = verify(tmp_path, house, issued(house, "llm.lan"), "-purpose", "smimesign")
    assert "unsuitable certificate purpose" in printed


def test_extensions_are_critical_and_keys_are_p256(house: Authority) -> None:
    for pem, length in ((house.root_cert_pem, 1), (house.intermediate_cert_pem, 0)):
        cert = x509.load_pem_x509_certificate(pem.encode())
        basic = cert.extensions.get_extension_for_class(x509.BasicConstraints)
        assert (basic.critical, basic.value.ca, basic.value.path_length) == (True, True, length)
        constraints = cert.extensions.get_extension_for_class(x509.NameConstraints)
        assert constraints.critical
        assert domain_of(pem) == "lan"
        usage = cert.extensions.get_extension_for_class(x509.KeyUsage)
        assert usage.critical
        assert usage.value.key_cert_sign
        assert not usage.value.digital_signature
        assert cert.serial_number.bit_length() > 64
        key = cert.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        assert key.curve.name == "secp256r1"


def test_keys_do_not_show_in_a_repr(house: Authority) -> None:
    assert "PRIVATE KEY" not in repr(house)


def test_renewal_keeps_the_root_and_old_leaves(house: Authority, tmp_path: Path) -> None:
    renewed = renew_intermediate(house, NOW)
    assert renewed.root_cert_pem == house.root_cert_pem
    assert renewed.intermediate_key_pem != house.intermediate_key_pem
    assert verify(tmp_path, renewed, issued(renewed, "llm.lan")) == "leaf.crt: OK"
    old_leaf = issued(house, "llm.lan")
    printed = verify(tmp_path, renewed, old_leaf, intermediates=house.intermediate_cert_pem)
    assert printed == "leaf.crt: OK"


def test_renewal_is_due_in_the_last_third(house: Authority) -> None:
    cert = house.intermediate_cert_pem
    assert not needs_renewal(cert, NOW)
    assert not needs_renewal(cert, NOW + timedelta(days=729))
    assert needs_renewal(cert, NOW + timedelta(days=732))
    assert needs_renewal(cert, NOW + timedelta(days=5000))


def test_the_vault_gets_an_authority_once_and_a_renewal_in_time() -> None:
    held: dict[str, str] = {}
    first, done = ensure(held, "lan", NOW)
    assert done == "made"
    assert sorted(held) == sorted(SECRETS)
    assert ensure(held, "lan", NOW + timedelta(days=700)) == (first, "kept")
    later = NOW + timedelta(days=900)
    second, done = ensure(held, "lan", later)
    assert done == "renewed"
    assert second.root_cert_pem == first.root_cert_pem
    assert ensure(held, "lan", later) == (second, "kept")


def test_the_last_intermediate_expires_with_its_root_which_is_then_replaced() -> None:
    held: dict[str, str] = {}
    first, _ = ensure(held, "lan", NOW)
    late = NOW + timedelta(days=3600)
    second, done = ensure(held, "lan", late)
    assert done == "renewed"
    assert not_after(second.intermediate_cert_pem) == not_after(first.root_cert_pem)
    assert ensure(held, "lan", late)[1] == "kept"
    third, done = ensure(held, "lan", NOW + timedelta(days=3640))
    assert done == "made"
    assert fingerprint(third.root_cert_pem) != fingerprint(first.root_cert_pem)


def test_another_domain_needs_another_root() -> None:
    held: dict[str, str] = {}
    ensure(held, "lan", NOW)
    authority, done = ensure(held, "home.arpa", NOW)
    assert (done, domain_of(authority.root_cert_pem)) == ("made", "home.arpa")


def test_an_intermediate_of_another_root_is_replaced() -> None:
    held: dict[str, str] = {}
    first, _ = ensure(held, "lan", NOW)
    held["house_intermediate_cert"] = make_house_authority("lan", NOW).intermediate_cert_pem
    second, done = ensure(held, "lan", NOW)
    assert (done, second.root_cert_pem) == ("renewed", first.root_cert_pem)


def test_an_incomplete_authority_is_never_replaced_silently() -> None:
    held: dict[str, str] = {}
    ensure(held, "lan", NOW)
    del held["house_root_key"]
    before = dict(held)
    with pytest.raises(PkiError, match=r"without house_root_key: put the vault back"):
        ensure(held, "lan", NOW)
    assert held == before


@pytest.mark.parametrize("domain", ["", "LAN", ".lan", "a_b", "lan.", "-x", "a b"])
def test_an_invalid_domain_is_rejected(domain: str) -> None:
    with pytest.raises(PkiError, match="write a DNS name"):
        make_house_authority(domain, NOW)


def test_damaged_pem_is_one_line(house: Authority) -> None:
    with pytest.raises(PkiError, match="not a certificate"):
        needs_renewal(house.root_cert_pem[:200], NOW)
