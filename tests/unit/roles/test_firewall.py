"""The machine's firewall, as it is rendered for a record that names callers."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from tests.role_data import reference_house, rendered_file

CALLERS = ["192.0.2.20", "192.0.2.0/28"]


def rules(house: dict[str, Any]) -> list[str]:
    """Return the lines of the ruleset that send a caller on into an instance."""
    text = rendered_file("firewall", "firewall.nft.j2", house)
    return [line.strip() for line in text.splitlines() if "dnat ip to" in line]


def test_a_port_is_passed_on_for_its_callers_and_only_where_the_machine_is_meant(
    tmp_path: Path,
) -> None:
    shipped = reference_house(tmp_path)
    assert rules(shipped) == []
    house = copy.deepcopy(shipped)
    house["services"]["whisper"]["publish_tcp"] = {"10300": CALLERS}
    # A machine that routes for a caller leaves alone what he sends to that port of others.
    assert rules(house) == [
        'iifname "lan0" ip saddr { 192.0.2.20, 192.0.2.0/28 } fib daddr type local '
        "tcp dport 10300 dnat ip to 10.140.30.16:10300"
    ]
