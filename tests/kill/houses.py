"""The two houses that a sweep kills runs of: one that is complete, and one that is being built."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from hearth.project import Project
from hearth.remote.controller import prepared
from tests import lab_machine as lab
from tests.kill import change, state
from tests.kill.kills import Kill, Killed, count, run_killed, site
from tests.lab.house import CLONE, ROOT, wait_green
from tests.lab_machine import mock_upstreams
from tests.lab_machine.house import clone

# The time that its models need from mock upstreams that are slow on purpose.
_GREEN_S = 300
_CONTROLLER_S = 600
_BARE = "bare"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The state of a house whose runs were killed, after a run that was not."""

    next_s: float
    differences: Sequence[str]
    second_changed: int


class House(Protocol):
    """A lab machine whose runs are killed."""

    # How many events a run has; a house that is turned back and forth has two runs in turn.
    events: list[int]
    # The programs of long tasks that such a run starts.
    places: ClassVar[Sequence[str]]

    def prepare(self) -> None:
        """Record the reference that it is compared with later, and count the events."""

    def kill(self, kill: Kill) -> Killed:
        """Kill a run."""

    def recover(self) -> Outcome:
        """Run twice what was killed, and compare."""


@dataclass(slots=True)
class Standing:
    """A house, its two states as unkilled runs leave them, and the one that it should be in."""

    machine: str
    references: dict[bool, Mapping[str, str]] = field(default_factory=dict)
    events: list[int] = field(default_factory=list)
    changed: bool = False
    places: ClassVar[Sequence[str]] = ("reload",)

    def prepare(self) -> None:
        """Record both references, and count the events of both changes."""
        # In any state of the machine, the first run makes it the house of this commit.
        clone(Project(ROOT), self.machine)
        change.make(self.machine, changed=False)
        site(self.machine)
        for changed in (True, False):
            change.make(self.machine, changed=changed)
            self.events.append(count(self.machine))
            self.references[changed] = state.look(self.machine)
            assert not (found := state.wrong(self.references[changed])), found

    def kill(self, kill: Kill) -> Killed:
        """Kill a run that turns the house into its other state."""
        self.changed = not self.changed
        change.make(self.machine, changed=self.changed)
        return run_killed(self.machine, kill)

    def recover(self) -> Outcome:
        """Run twice what was killed; the house is then as an unkilled run left it."""
        return _recover(
            self.machine,
            lambda: state.differences(self.references[self.changed], state.look(self.machine)),
        )


@dataclass(slots=True)
class Bare:
    """An empty machine, restored before each kill, and the parts of a house built in it."""

    machine: str
    reference: Mapping[str, str] = field(default_factory=dict)
    events: list[int] = field(default_factory=list)
    places: ClassVar[Sequence[str]] = ("apt", "uv", "image", "import", "start", "pull")
    fresh: bool = True

    def prepare(self) -> None:
        """Build the house once without a kill, from the state that is restored later."""
        if self.machine in {one.name for one in lab.load_all()}:
            lab.destroy(self.machine, keep_cache=True)
        machine = lab.create(self.machine)
        project = Project(ROOT)
        mock_upstreams.serve(project, machine)
        clone(project, self.machine)
        words = ["/bin/bash", "-c", f"cd {CLONE}; {prepared(['true'])}"]
        lab.run(self.machine, words, timeout=_CONTROLLER_S, check=True)
        lab.save(self.machine, _BARE)
        self.events.append(count(self.machine))
        wait_green(self.machine, _GREEN_S)
        self.reference = state.look(self.machine)
        assert not (found := state.wrong(self.reference)), found
        self.fresh = False

    def kill(self, kill: Kill) -> Killed:
        """Kill a run that builds the house; the next kill in a row goes on where this one ended."""
        if not self.fresh:
            lab.restore(self.machine, _BARE)
            self.fresh = True
        return run_killed(self.machine, kill)

    def recover(self) -> Outcome:
        """Run twice what was killed: the house has the same parts and is all green.

        Its keys differ from the reference's, so the parts are compared by name.
        """
        self.fresh = False
        return _recover(self.machine, self._differences)

    def _differences(self) -> list[str]:
        found = state.look(self.machine)
        lines = [f"is missing: {name}" for name in sorted(set(self.reference) - set(found))]
        lines += [f"is too much: {name}" for name in sorted(set(found) - set(self.reference))]
        wait_green(self.machine, _GREEN_S)
        return [*lines, *state.wrong(found)]


def _recover(machine: str, compare: Callable[[], Iterable[str]]) -> Outcome:
    began = time.monotonic()
    try:
        site(machine)
    except AssertionError as error:
        return Outcome(time.monotonic() - began, [str(error)[-1500:]], -1)
    took = time.monotonic() - began
    found = list(compare())
    return Outcome(took, found, sum(site(machine).values()))
