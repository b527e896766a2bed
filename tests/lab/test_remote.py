"""The house's machine over ssh: a run that changes nothing, a failing run, status and a key."""

import time

import pytest

from tests.kill.kills import site
from tests.lab.house import NAME, House, changed
from tests.lab.remote import Controller
from tests.lab.saved import HOUSE

pytestmark = pytest.mark.lab

# The same work plus the connection: a run without changes may take half as long again.
SLOWER = 1.5
GREEN_S = 180


@pytest.fixture(scope="module", autouse=True)
def _unspoilt(house: House) -> None:
    """The parts before this one changed the house, and the next one compares what is left of it."""
    house.back_to(HOUSE)


def test_its_status_and_a_key_are_shown_on_the_controller(
    house: House, controller: Controller
) -> None:
    deadline = time.monotonic() + GREEN_S
    while (status := controller.hearth("status", "--json")).returncode != 0:
        assert time.monotonic() < deadline, status.text
        time.sleep(1)
    key = controller.hearth("secret", "show", "consumer_household", "--plain").text.strip()
    assert key == house.key()


def test_a_run_without_changes_is_as_fast_over_ssh(house: House, controller: Controller) -> None:
    # The first run over ssh brings the project and its settings.
    output = controller.ansible("site.yml", "--tags", "dnsmasq")
    assert output.returncode == 0, output.text[-6000:]
    began = time.monotonic()
    counts = site(NAME)
    there = time.monotonic() - began
    assert changed(counts) == 0, counts
    began = time.monotonic()
    output = controller.ansible("site.yml")
    over_ssh = time.monotonic() - began
    assert output.returncode == 0, output.text[-6000:]
    assert output.changed, output.text[-3000:]
    assert set(output.changed) == {0}, output.text[-3000:]
    house.figures["no-change site.yml on the machine, s"] = there
    house.figures["no-change site.yml over ssh, s"] = over_ssh
    assert over_ssh / there <= SLOWER, (there, over_ssh)


def test_a_run_that_fails_there_fails_here(controller: Controller) -> None:
    # The controller does not check this value: the role refuses it there, before any change.
    output = controller.ansible("site.yml", "--tags", "dnsmasq", "-e", "dnsmasq_cached_names=many")
    assert output.returncode == 2, output.text[-3000:]
    assert "dnsmasq_cached_names" in output.text, output.text[-3000:]
    assert "the run on " in output.text, output.text[-3000:]
