"""A run that is killed while it changes the house: the next run repairs everything.

The commit chooses the event and the kind; HEARTH_KILL=KIND:N+MS repeats one kill.
"""

import pytest

from tests.kill import change, kills, state
from tests.kill.houses import Standing
from tests.lab.house import NAME, House

pytestmark = pytest.mark.lab

# A run that changes something has at least this many events; the kill comes before that.
EVENTS = 190


@pytest.fixture(scope="module")
def sweep(house: House) -> Standing:
    """The house as it is, without the change."""
    known = Standing(NAME)
    known.references[False] = state.look(NAME)
    assert not (wrong := state.wrong(known.references[False])), wrong
    return known


def test_the_next_run_repairs_a_killed_one(house: House, sweep: Standing) -> None:
    # The change is killed on its way there and on its way back. The house that is left can then
    # be compared with the one before, which no kill touched.
    for changed in (True, False):
        change.make(NAME, changed=changed)
        killed = kills.run_killed(NAME, kills.chosen(f"killed, {changed}", EVENTS))
        print(f"{killed.kill} in {killed.task!r}, {killed.what}, {killed.took_s} s", flush=True)
    counts = house.site()
    # A machine that lost its power starts its programs by itself, beside the run.
    house.wait_green()
    found = state.differences(sweep.references[False], state.look(NAME))
    assert not found, "\n".join(found)
    second = house.site()
    assert sum(second.values()) == 0, second
    house.figures["tasks that the run after two killed ones changed"] = sum(counts.values())


def test_no_second_run_beside_the_first(house: House) -> None:
    script = (
        # The last run's lines stay there until the next one.
        "cd /root/hearth; : > /run/hearth.lock; "
        ".venv/bin/ansible-playbook site.yml --tags machine > /dev/null & "
        "until grep -q ansible-playbook /run/hearth.lock; do sleep 0.1; done; "
        ".venv/bin/ansible-playbook site.yml || echo refused; wait"
    )
    done = house.inside("/bin/bash", "-c", script, timeout=120)
    output = " ".join((done.stdout + done.stderr).split())
    assert "another run is active on this machine: root (" in output, output
    assert "runs `ansible-playbook site.yml --tags machine` as process" in output, output
    assert done.stdout.endswith("refused\n"), output
