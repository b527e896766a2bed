"""Only packages are removed that Hearth installed and that nothing else has come to need."""

import json
from pathlib import Path

import pytest

from hearth.remove import RemoveError, run
from hearth.remove import before as record
from hearth.remove.before import Before

# name: what it needs; what a person asked for is in MANUAL.
WORLD = {
    "caddy": {"libnss3"},
    "libnss3": set(),
    "incus-base": {"uidmap", "lxcfs"},
    "uidmap": set(),
    "lxcfs": set(),
    "curl": set(),
    "orphan": set(),
    "their-tool": {"uidmap"},
    "late-tool": {"libnss3"},
}
MANUAL = {"caddy", "incus-base", "uidmap", "curl", "their-tool", "late-tool"}


class Apt:
    """What apt would say of a small world of packages."""

    def __init__(self, here: set[str]) -> None:
        self.here, self.ran, self.dies_in = here, [""], ""

    def run(self, *argv: str, timeout_s: float = 0) -> str:
        self.ran.append(" ".join(argv))
        if argv[0].endswith("apt-mark"):
            return "\n".join(MANUAL & self.here)
        if argv[0].endswith("dpkg-query"):
            return "\n".join(self.here)
        gone = {word for word in argv if word in WORLD}
        if "--simulate" not in argv:
            for name in sorted(gone):
                if name == self.dies_in:
                    raise KeyboardInterrupt
                self.here.discard(name)
            return ""
        while more := {n for n in self.here - gone if WORLD[n] & gone}:
            gone |= more
        if "--auto-remove" in argv or "autoremove" in argv:
            needed = (MANUAL & self.here) - gone
            while more := {need for n in needed for need in WORLD[n]} - needed:
                needed |= more
            gone |= self.here - needed
        return "\n".join(f"Purg {name} [1]" for name in gone & self.here)


def before(*names: str, known: bool = True) -> Before:
    return Before(known, frozenset(names))


@pytest.fixture
def apt(monkeypatch: pytest.MonkeyPatch) -> Apt:
    apt = Apt(set(WORLD) - {"their-tool", "late-tool"})
    monkeypatch.setattr(record, "run", apt.run)
    monkeypatch.setattr(record, "installed", lambda: sorted(apt.here))
    return apt


ASKED = {"caddy", "incus-base", "uidmap", "curl"}


@pytest.mark.usefixtures("apt")
def test_what_came_goes_with_what_it_brought(tmp_path: Path) -> None:
    found = record.choose_packages(before("curl"), ASKED, (), tmp_path)
    assert found.goes == ("caddy", "incus-base", "libnss3", "lxcfs", "uidmap")
    assert found.stays == {}


@pytest.mark.usefixtures("apt")
def test_what_data_need_stays_with_what_it_needs_itself(tmp_path: Path) -> None:
    found = record.choose_packages(before("curl"), ASKED, {"incus-base"}, tmp_path)
    assert found.goes == ("caddy", "libnss3")
    assert found.stays == {
        "incus-base": "the remaining data need it",
        "uidmap": "incus-base needs it",
    }


def test_what_somebody_installed_since_keeps_what_it_needs(apt: Apt, tmp_path: Path) -> None:
    apt.here.add("their-tool")
    found = record.choose_packages(before("curl"), ASKED, (), tmp_path)
    assert found.stays == {"uidmap": "their-tool needs it"}
    assert "uidmap" not in found.goes
    assert "their-tool" not in found.goes


@pytest.mark.usefixtures("apt")
@pytest.mark.parametrize("seen", [Before(), before(known=False)])
def test_without_a_record_nothing_goes_on_a_guess(seen: Before, tmp_path: Path) -> None:
    found = record.choose_packages(seen, ASKED, (), tmp_path)
    assert found.goes == ()
    assert set(found.stays) == ASKED


def test_a_purge_ends_what_a_killed_one_began_and_asks_for_nothing_unknown(
    apt: Apt, tmp_path: Path
) -> None:
    record.purge(["caddy", "gone-already"], tmp_path)
    assert apt.ran[1] == "/usr/bin/dpkg --configure -a"
    assert apt.ran[-1].endswith("purge caddy")


def test_what_a_killed_purge_left_behind_goes_with_the_next(apt: Apt, tmp_path: Path) -> None:
    # Cut in the middle: nobody could tell any more why the library had come.
    cut(apt, ["caddy", "libnss3"], "libnss3", tmp_path)
    found = record.choose_packages(before("curl", "incus-base", "uidmap"), ASKED, (), tmp_path)
    assert found.goes == ("libnss3",)


def test_what_somebody_needs_since_a_killed_purge_stays(apt: Apt, tmp_path: Path) -> None:
    cut(apt, ["caddy", "libnss3", "lxcfs"], "libnss3", tmp_path)
    apt.here |= {"late-tool"}
    found = record.choose_packages(
        before("curl", "incus-base", "uidmap"), ASKED, {"incus-base"}, tmp_path
    )
    assert found.goes == ()
    apt.here -= {"incus-base"}
    found = record.choose_packages(before("curl", "uidmap"), ASKED, (), tmp_path)
    assert found.goes == ("lxcfs",)


def test_a_purge_that_ended_is_forgotten(apt: Apt, tmp_path: Path) -> None:
    (tmp_path / record.REQUESTED).write_text(json.dumps(sorted(ASKED)))
    first = record.choose_packages(
        before("curl"), record.requested(tmp_path), {"incus-base"}, tmp_path
    )
    record.purge(first.goes, tmp_path)
    assert not {"caddy", "libnss3"} & apt.here
    # Of their own: a tool that needs one of them again, and a Caddy.
    apt.here |= {"late-tool", "libnss3", "caddy"}
    second = record.choose_packages(before("curl"), record.requested(tmp_path), (), tmp_path)
    assert second.goes == ("incus-base", "lxcfs", "uidmap")
    assert record.unfinished(tmp_path) == []


def cut(apt: Apt, names: list[str], at: str, state: Path) -> None:
    """Purge, and be killed before this one goes."""
    apt.dies_in = at
    with pytest.raises(KeyboardInterrupt):
        record.purge(names, state)
    apt.dies_in = ""


def test_apts_refusal_is_one_line() -> None:
    with pytest.raises(RemoveError, match="that is how it failed: fix this"):
        run("/bin/sh", "-c", "echo that is how it failed >&2; exit 1")
