"""Only packages that Hearth installed and that nothing else needs are removed."""

import json
from pathlib import Path

import pytest

from hearth.remove import RemoveError, run
from hearth.remove import before as record
from hearth.remove.before import Before

# name: its dependencies; MANUAL has the packages that a person installed.
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
    """An apt with a small world of packages."""

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


REQUESTED = {"caddy", "incus-base", "uidmap", "curl"}


@pytest.mark.usefixtures("apt")
def test_installed_packages_are_removed_with_their_dependencies(tmp_path: Path) -> None:
    found = record.choose_packages(before("curl"), REQUESTED, (), tmp_path)
    assert found.goes == ("caddy", "incus-base", "libnss3", "lxcfs", "uidmap")
    assert found.stays == {}


@pytest.mark.usefixtures("apt")
def test_a_package_that_data_need_stays_with_its_dependencies(tmp_path: Path) -> None:
    found = record.choose_packages(before("curl"), REQUESTED, {"incus-base"}, tmp_path)
    assert found.goes == ("caddy", "libnss3")
    assert found.stays == {
        "incus-base": "the remaining data need it",
        "uidmap": "incus-base needs it",
    }


def test_a_package_installed_later_keeps_its_dependencies(apt: Apt, tmp_path: Path) -> None:
    apt.here.add("their-tool")
    found = record.choose_packages(before("curl"), REQUESTED, (), tmp_path)
    assert found.stays == {"uidmap": "their-tool needs it"}
    assert "uidmap" not in found.goes
    assert "their-tool" not in found.goes


@pytest.mark.usefixtures("apt")
@pytest.mark.parametrize("seen", [Before(), before(known=False)])
def test_without_a_record_nothing_is_removed_on_a_guess(seen: Before, tmp_path: Path) -> None:
    found = record.choose_packages(seen, REQUESTED, (), tmp_path)
    assert found.goes == ()
    assert set(found.stays) == REQUESTED


def test_a_purge_first_finishes_a_killed_one_and_names_only_known_packages(
    apt: Apt, tmp_path: Path
) -> None:
    record.purge(["caddy", "gone-already"], tmp_path)
    assert apt.ran[1] == "/usr/bin/dpkg --configure -a"
    assert apt.ran[-1].endswith("purge caddy")


def test_leftovers_of_a_killed_purge_are_removed_by_the_next(apt: Apt, tmp_path: Path) -> None:
    # Killed in the middle: apt no longer knows why the library was installed.
    kill_purge(apt, ["caddy", "libnss3"], "libnss3", tmp_path)
    found = record.choose_packages(before("curl", "incus-base", "uidmap"), REQUESTED, (), tmp_path)
    assert found.goes == ("libnss3",)


def test_a_dependency_that_is_needed_again_after_a_killed_purge_stays(
    apt: Apt, tmp_path: Path
) -> None:
    kill_purge(apt, ["caddy", "libnss3", "lxcfs"], "libnss3", tmp_path)
    apt.here |= {"late-tool"}
    found = record.choose_packages(
        before("curl", "incus-base", "uidmap"), REQUESTED, {"incus-base"}, tmp_path
    )
    assert found.goes == ()
    apt.here -= {"incus-base"}
    found = record.choose_packages(before("curl", "uidmap"), REQUESTED, (), tmp_path)
    assert found.goes == ("lxcfs",)


def test_a_finished_purge_is_forgotten(apt: Apt, tmp_path: Path) -> None:
    (tmp_path / record.REQUESTED).write_text(json.dumps(sorted(REQUESTED)))
    first = record.choose_packages(
        before("curl"), record.requested(tmp_path), {"incus-base"}, tmp_path
    )
    record.purge(first.goes, tmp_path)
    assert not {"caddy", "libnss3"} & apt.here
    # A person installs a tool that needs one of them again, and a Caddy.
    apt.here |= {"late-tool", "libnss3", "caddy"}
    second = record.choose_packages(before("curl"), record.requested(tmp_path), (), tmp_path)
    assert second.goes == ("incus-base", "lxcfs", "uidmap")
    assert record.unfinished(tmp_path) == []


def kill_purge(apt: Apt, names: list[str], at: str, state: Path) -> None:
    """Purge, and be killed before this one is removed."""
    apt.dies_in = at
    with pytest.raises(KeyboardInterrupt):
        record.purge(names, state)
    apt.dies_in = ""


def test_an_error_of_apt_is_one_line() -> None:
    with pytest.raises(RemoveError, match="that is how it failed: fix this"):
        run("/bin/sh", "-c", "echo that is how it failed >&2; exit 1")
