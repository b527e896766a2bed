"""The user is shown where the trust page is, and what the root looks like."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import segno

from hearth import status
from hearth.catalogue import House, derive, load
from hearth.machine import pki
from hearth.machine.facts import FactsError
from hearth.render.files import trust_config

INVENTORY = Path(__file__).parents[3] / "inventory"


@pytest.fixture
def house() -> House:
    shipped = derive(load(INVENTORY))
    return replace(shipped, machine=replace(shipped.machine, lan_address="192.0.2.10"))


def test_the_address_comes_first_because_it_needs_no_dns(house: House) -> None:
    assert status.trust_addresses(house) == ["http://192.0.2.10/", "http://trust.lan/"]


def test_without_a_lan_address_only_the_name_is_shown(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_a_wire(_: House) -> None:
        raise FactsError("this machine has no default IPv4 route")

    monkeypatch.setattr(status, "house_edge", without_a_wire)
    assert status.trust_addresses(house) == ["http://trust.lan/"]


def test_a_new_address_is_a_note_with_what_to_change(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "trust.json"
    monkeypatch.setattr(status, "TRUST_CONFIG", file)
    # Nothing is known of a house that is not built yet, and nothing has changed after a run.
    assert status.moved(house) == []
    file.write_text(json.dumps(trust_config(house, "lan0", "192.0.2.10", "trust", "root.crt")))
    assert status.moved(house) == []
    file.write_text(json.dumps(trust_config(house, "lan0", "192.0.2.7", "trust", "root.crt")))
    assert status.moved(house) == [
        "the house's address was 192.0.2.7 and is now 192.0.2.10: where 192.0.2.7 is entered as "
        "the DNS server, in the router or on a device, enter 192.0.2.10"
    ]


def test_a_house_without_the_page_names_none(house: House) -> None:
    sites = tuple(site for site in house.sites if not site.plain)
    assert status.trust_addresses(replace(house, sites=sites)) == []


def test_the_fingerprint_is_the_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "root.crt"
    monkeypatch.setattr(status, "ROOT_CERTIFICATE", path)
    assert status.root_fingerprint() == ""
    path.write_text("no certificate")
    assert status.root_fingerprint() == ""
    root = pki.make_house_authority("lan", datetime.now(UTC)).root_cert_pem
    path.write_text(root)
    assert status.root_fingerprint() == pki.fingerprint(root)


def test_a_certificate_near_its_expiry_is_reported_with_the_fix(tmp_path: Path) -> None:
    now = datetime(2026, 11, 22, tzinfo=UTC)
    assert status.certificate_validity(now, tmp_path) == (
        False,
        f"{tmp_path}/root.crt cannot be read: `hearth up` writes it",
    )
    made = pki.make_house_authority("lan", now)
    (tmp_path / "root.crt").write_text(made.root_cert_pem)
    (tmp_path / "intermediate.crt").write_text(made.intermediate_cert_pem)
    for days, good, start in (
        (0, True, "good until 2029-11-22"),
        (1065, True, "good until 2029-11-22"),
        (1067, False, "the intermediate expires in 29 days: `hearth up` renews it"),
        (1097, False, "the intermediate has expired: `hearth up` renews it"),
        (
            3640,
            False,
            "the root expires in 12 days: `hearth up` makes a new one, which every device",
        ),
        (3653, False, "the root has expired: "),
    ):
        lasts, text = status.certificate_validity(now + timedelta(days=days), tmp_path)
        assert (lasts, text[: len(start)]) == (good, start)
        # What it says to do helps: by then a run makes another one.
        _, done = pki.ensure_authority(made.as_secrets(), "lan", now + timedelta(days=days))
        assert lasts or done != "kept"


def test_the_qr_code_contains_the_address() -> None:
    address = "http://192.0.2.10/"
    lines = [line for line in status.qr_code(address).split("\n") if "\033" in line or line.strip()]
    wide = segno.make(address, micro=False).symbol_size(border=2)[0]
    # Two rows of the code in each line of text.
    assert len(lines) == (wide + 1) // 2
