"""What the tests record of one version of Open WebUI is true of the one that is installed."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.lab.house import ROOT, House

pytestmark = pytest.mark.lab

NAMES = ROOT / "services" / "open_webui" / "hearth_open_webui" / "names.txt"


def installed(house: House, what: str) -> list[str]:
    where = "--env PYTHONPATH=/opt/hearth/open_webui/current"
    command = f"{where} -- python3 -m hearth_open_webui.upstream {what}"
    return house.shell(f"incus exec open-webui {command} </dev/null").splitlines()


def test_its_settings_are_those_that_are_known(house: House) -> None:
    assert installed(house, "variables") == NAMES.read_text().split()


def test_the_scripts_in_its_page_are_those_that_the_policy_allows(house: House) -> None:
    record = yaml.safe_load((ROOT / "inventory" / "services.yml").read_text())
    policy = record["services"]["open_webui"]["publish"]["chat"]["policy"]
    assert installed(house, "scripts") == re.findall(r"'sha256-[^']+'", policy)
