"""Certificates that are valid for seconds: the sites' and the intermediate are renewed in time.

A device trusts only the root and makes two TLS handshakes a second throughout. It may find no
server for the moment in which Caddy restarts, and never a certificate that it does not trust.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from cryptography import x509

from tests import lab_machine as lab
from tests.lab.house import ANSIBLE_S, CLONE, NAME, House

pytestmark = [pytest.mark.lab, pytest.mark.long]

SITE = "trust.lan"
LEAF_S, LEAST_S = 30, 60
EVERY_S, WITHIN_S, WAIT_S = 0.5, 10, 120
# Caddy's settings meanwhile: a store of its own, so that it has to issue every certificate.
SHORT = {
    "caddy_leaf_lifetime": f"{LEAF_S}s",
    "caddy_renew_every": "2s",
    "caddy_authority": "short-lived",
}
# A vault's intermediate in its last third, made by the house's own code.
SHORTEN = """
from datetime import UTC, datetime, timedelta
from hearth.machine import pki
from hearth.project import current
pki.INTERMEDIATE_LIFE, pki._SKEW = timedelta(seconds={life_s}), timedelta(0)
vault = current().vault
held = pki.Authority(*(vault.values()[name] for name in pki.SECRETS))
vault.update(pki.renew_intermediate(held, datetime.now(UTC)).as_secrets())
"""


@dataclass(slots=True)
class Seen:
    """The certificates that a device was shown: when, until when valid, and by which key signed."""

    shown: dict[int, tuple[datetime, bytes]] = field(default_factory=dict)
    unbelieved: list[str] = field(default_factory=list)
    absent: int = 0

    def signers(self) -> list[bytes]:
        """Return the signing keys, in the order in which they were seen."""
        return list(dict.fromkeys(signer for _, signer in self.shown.values()))


def look(address: str, trust: ssl.SSLContext) -> x509.Certificate:
    """Make a TLS handshake as a device does, and return the certificate that it was shown."""
    with (
        socket.create_connection((address, 443), timeout=WITHIN_S) as plug,
        trust.wrap_socket(plug, server_hostname=SITE) as secure,
    ):
        return x509.load_der_x509_certificate(secure.getpeercert(binary_form=True) or b"")


@contextmanager
def watched(house: House) -> Iterator[Seen]:
    """Look every half second until the block ends."""
    seen, over, address = Seen(), threading.Event(), lab.address(NAME)
    root = house.inside("/bin/cat", "/etc/hearth/pki/root.crt", check=True).stdout
    trust = ssl.create_default_context(cadata=root)

    def watch() -> None:
        while not over.wait(EVERY_S):
            try:
                found = look(address, trust)
            except ssl.SSLCertVerificationError as error:
                seen.unbelieved.append(f"{datetime.now(UTC):%H:%M:%S} {error}")
                continue
            except OSError:
                seen.absent += 1
                continue
            known = found.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
            seen.shown[found.serial_number] = (
                found.not_valid_after_utc,
                known.key_identifier or b"",
            )

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def converge(house: House, variables: dict[str, str]) -> str:
    """Converge Caddy as a run of site.yml does; return its output."""
    script = f'cd {CLONE}; ANSIBLE_NOCOLOR=1 exec .venv/bin/ansible-playbook "$@"'
    words = ["site.yml", "--tags", "caddy", "--limit", "localhost,machines"]
    words += ["--extra-vars", json.dumps(variables)]
    argv = ["/bin/bash", "-c", script, "-", *words]
    done = house.inside(*argv, timeout=ANSIBLE_S)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


def until(true: object, what: str) -> None:
    """Wait for something that a watching thread sees."""
    deadline = time.monotonic() + WAIT_S
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"after {WAIT_S} s there was no {what}"
        time.sleep(EVERY_S)


@pytest.fixture
def usual(house: House) -> Iterator[None]:
    """Restore the house's own intermediate, and its certificates of a week."""
    keep = f"cp -a {CLONE}/inventory/secrets.yml {CLONE}/inventory/secrets.yml.kept"
    house.shell(keep)
    try:
        yield
    finally:
        house.shell(f"mv {CLONE}/inventory/secrets.yml.kept {CLONE}/inventory/secrets.yml")
        converge(house, {})
        house.shell("rm -rf /var/lib/hearth/caddy/short-lived")


def test_short_lived_certificates_are_renewed_in_time(house: House, usual: None) -> None:
    with watched(house) as seen:
        began = time.monotonic()
        converge(house, SHORT)
        # A due certificate has a third of its life left, and a run has to end in that time.
        life_s = max(LEAST_S, round(6 * (time.monotonic() - began)))
        until(lambda: any(end_in(seen, LEAF_S)), "certificate of a site that lives for seconds")
        before = seen.signers()[-1]
        script = f'cd {CLONE} && exec .venv/bin/python -c "$0"'
        shorten = SHORTEN.format(life_s=life_s)
        house.inside("/bin/sh", "-c", script, shorten, check=True)
        converge(house, SHORT)
        until(lambda: seen.signers()[-1] != before, "certificate from the short-lived intermediate")
        short = seen.signers()[-1]
        until(lambda: of(seen, short) >= 2, "second certificate from the same intermediate")
        while (left := ends(house) - datetime.now(UTC).timestamp()) > life_s / 3:
            time.sleep(min(left, EVERY_S))
        output = converge(house, SHORT)
        assert "changed: [localhost]" in output
        until(lambda: seen.signers()[-1] != short, "certificate from the renewed intermediate")
    assert seen.unbelieved == []
    house.figures["certificates of one site that a device saw meanwhile"] = len(seen.shown)
    house.figures["s without a reverse proxy while it restarted"] = seen.absent * EVERY_S


def end_in(seen: Seen, seconds: float) -> Iterator[bool]:
    """Yield for each certificate that was seen whether it ends this soon."""
    now = datetime.now(UTC)
    return ((end - now).total_seconds() <= seconds for end, _ in seen.shown.values())


def of(seen: Seen, signer: bytes) -> int:
    """Count the certificates that one key has signed."""
    return sum(one == signer for _, one in seen.shown.values())


def ends(house: House) -> float:
    """Return when the machine's intermediate expires."""
    pem = house.inside("/bin/cat", "/etc/hearth/pki/intermediate.crt", check=True).stdout
    return x509.load_pem_x509_certificate(pem.encode()).not_valid_after_utc.timestamp()
