"""A house on another machine: built over ssh after a run that was killed, and as fast as there."""

import time

import pytest

from hearth.cli.handover import prepared, send
from hearth.cli.ssh import target
from tests import lab_machine as lab
from tests.kill.kills import SITE, chosen, run_killed, site
from tests.lab.another import Other
from tests.lab.house import CLONE, House, ask, changed

pytestmark = pytest.mark.lab

# A bare machine's run has some more, so each of them comes.
EVENTS = 380
# The same work, with the way there: what is no change may take half as long again.
SLOWER = 1.5
GREEN_S = 180


def test_a_run_on_a_bare_machine_is_killed(
    house: House, other: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    with house.spending("a killed run on a bare machine", 4.0):
        monkeypatch.setenv("PATH", other.environment()["PATH"])
        send(other.project, target(f"ssh://root@{lab.address(other.name)}"), print)
        other.shell(f"cd {CLONE}; {prepared(['true'])}")
        killed = run_killed(other.name, chosen("a bare machine", EVENTS), SITE)
        house.figures["killed on a bare machine after, s"] = killed.took_s
        print(killed, flush=True)


def test_the_next_run_over_ssh_builds_the_house(house: House, other: Other) -> None:
    with house.spending("a house over ssh", 4.5):
        began = time.monotonic()
        said = other.outside("site.yml")
        house.figures["killed to built, over ssh, s"] = time.monotonic() - began
        assert said.returncode == 0, said.text[-6000:]
        # Each host there, and last the task here, which says what became of them.
        assert said.changed[-1] == 1, said.text[-3000:]
        assert sum(said.changed[:-1]) > 1, said.text[-3000:]


def test_it_is_green_and_answers(house: House, other: Other) -> None:
    with house.spending("an answer from the other machine", 0.5):
        deadline = time.monotonic() + GREEN_S
        while (status := other.hearth("status", "--json")).returncode != 0:
            assert time.monotonic() < deadline, status.text
            time.sleep(1)
        root = other.folder / "root.crt"
        lab.copy_out(other.name, "/etc/hearth/pki/root.crt", root)
        key = other.hearth("secret", "show", "consumer_household", "--plain").text.strip()
        near = ["--resolve", f"llm.lan:443:{lab.address(other.name)}"]
        deadline = time.monotonic() + GREEN_S
        while (answer := ask(None, str(root), "fast", key, *near)).status != 200:
            # Its model may still be coming.
            assert time.monotonic() < deadline, answer
            time.sleep(1)
        assert answer.json["choices"][0]["message"]["content"].strip()


def test_a_run_that_finds_nothing_to_do_is_as_fast_as_there(house: House, other: Other) -> None:
    with house.spending("no change, there and over ssh", 1.5):
        began = time.monotonic()
        counts = site(other.name)
        there = time.monotonic() - began
        assert changed(counts) == 0, counts
        began = time.monotonic()
        said = other.outside("site.yml")
        outside = time.monotonic() - began
        assert said.returncode == 0, said.text[-6000:]
        assert said.changed, said.text[-3000:]
        assert set(said.changed) == {0}, said.text[-3000:]
        house.figures["no-change site.yml on another machine, s"] = there
        house.figures["the same over ssh, s"] = outside
        assert outside / there <= SLOWER, (there, outside)


def test_a_run_that_fails_there_fails_here(house: House, other: Other) -> None:
    with house.spending("a run that fails, over ssh", 0.5):
        # Nothing of it is known here: the role refuses it there, before it does anything.
        said = other.outside("site.yml", "--tags", "dnsmasq", "-e", "dnsmasq_cached_names=many")
        assert said.returncode == 2, said.text[-3000:]
        assert "dnsmasq_cached_names" in said.text, said.text[-3000:]
        assert "the run on " in said.text, said.text[-3000:]
