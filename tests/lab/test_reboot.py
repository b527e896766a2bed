"""The house after a reboot of its machine."""

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
