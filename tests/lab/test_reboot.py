"""The house after a reboot of its machine."""

import json
import time

import pytest

from tests import lab_machine as lab
from tests.lab.house import NAME, House

pytestmark = pytest.mark.lab


def test_after_a_reboot_everything_is_green(house: House) -> None:
    began = time.monotonic()
    lab.reboot(NAME)
    house.wait_green()
    house.figures["reboot until all is green, s"] = time.monotonic() - began


def test_the_rebooted_house_passes_its_smoke_tests(house: House) -> None:
    done = house.hearth("verify", timeout=600)
    print(done.stdout, flush=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    counts = house.receipt()["summary"]
    # The model that was still being downloaded is complete and answers.
    assert "pending" not in counts, counts
    house.figures["smoke verdicts passed"] = counts["passed"]


def test_both_receipts_are_kept_and_say_that_only_models_have_come(house: House) -> None:
    listed = house.hearth("receipt", "--json")
    assert "skipped" not in listed.stderr, listed.stderr
    before, after = json.loads(listed.stdout)[-2:]
    assert after["good"], after
    done = house.hearth("receipt", "diff", before["name"], after["name"], "--json")
    # A busy lab may be slower for once; nothing else has changed.
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    assert [line for line in found["warnings"] if "hardware" in line] == []
    assert found["broken"] == []
    assert not {"kernel", "system"} & found["versions"].keys()
    bandwidth = next(one for one in found["figures"] if one["name"] == "memory bandwidth")
    assert bandwidth["b"]["median"] > 0
    assert {one["judgement"] for one in found["figures"]} & {"usual", "worse", "better"}
