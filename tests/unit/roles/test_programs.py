"""What a role installs and starts for a service lies in the folders that its instance sees."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.role_data import ACCELERATORS, installed_programs, reference_house, run_units


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return reference_house(tmp_path_factory.mktemp("inventory"))


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_each_program_is_installed_where_its_instance_sees_it(
    house: dict[str, Any], accelerator: str
) -> None:
    installed = installed_programs(house, accelerator)
    assert {"whisper_tiny", "whisper_small"} < installed["whisper"]
    for service, names in installed.items():
        # Programs of Debian are in the image.
        assert not names or service in names
        assert names <= {*house["services"][service]["programs"]}, service


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_each_unit_starts_from_folders_that_its_instance_sees(
    house: dict[str, Any], accelerator: str
) -> None:
    owners = {service["instance"]: service for service in house["services"].values()}
    for name, unit in run_units(house, accelerator).items():
        owner = owners.get(name) or owners.get(name.rpartition("-")[0])
        used = set(re.findall(r"/opt/hearth/([\w-]+)", unit))
        assert not used or (owner and used <= {*owner["programs"]}), name
