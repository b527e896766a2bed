"""Only packages go that Hearth brought and that nobody has come to need."""

from pathlib import Path

import pytest

from hearth.remove import RemoveError, packages
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
}
MANUAL = {"caddy", "incus-base", "uidmap", "curl"}


class Apt:
    """What apt would say of a small world of packages."""

    def __init__(self, here: set[str]) -> None:
        self.here, self.ran = here, [""]

    def run(self, argv: list[str]) -> str:
        self.ran.append(" ".join(argv))
        if argv[0].endswith("apt-mark"):
            return "\n".join(MANUAL & self.here | ({"their-tool"} & self.here))
        if argv[0].endswith("dpkg-query"):
            return "\n".join(self.here)
        if "--simulate" not in argv:
            return ""
        gone = {word for word in argv if word in WORLD}
        while more := {n for n in self.here - gone if WORLD[n] & gone}:
            gone |= more
        if "--auto-remove" in argv or "autoremove" in argv:
            manual = (MANUAL | {"their-tool"}) - gone
            needed = set(manual)
            while more := {need for n in needed for need in WORLD[n]} - needed:
                needed |= more
            gone |= self.here - needed
        return "\n".join(f"Purg {name} [1]" for name in gone & self.here)


def before(*names: str, known: bool = True) -> Before:
    return Before(known, frozenset(names), frozenset(), frozenset(), {}, {}, frozenset())


@pytest.fixture
def apt(monkeypatch: pytest.MonkeyPatch) -> Apt:
    apt = Apt(set(WORLD) - {"their-tool"})
    monkeypatch.setattr(packages, "_run", apt.run)
    monkeypatch.setattr(packages, "installed", lambda: sorted(apt.here))
    return apt


ASKED = {"caddy", "incus-base", "uidmap", "curl"}


@pytest.mark.usefixtures("apt")
def test_what_came_goes_with_what_it_brought(tmp_path: Path) -> None:
    found = packages.chosen(before("curl"), ASKED, (), tmp_path)
    assert found.goes == ("caddy", "incus-base", "libnss3", "lxcfs", "uidmap")
    assert found.stays == {}


@pytest.mark.usefixtures("apt")
def test_what_data_need_stays_with_what_it_needs_itself(tmp_path: Path) -> None:
    found = packages.chosen(before("curl"), ASKED, {"incus-base"}, tmp_path)
    assert found.goes == ("caddy", "libnss3")
    assert found.stays == {
        "incus-base": "the data that stay need it",
        "uidmap": "incus-base needs it",
    }


def test_what_somebody_installed_since_keeps_what_it_needs(apt: Apt, tmp_path: Path) -> None:
    apt.here.add("their-tool")
    found = packages.chosen(before("curl"), ASKED, (), tmp_path)
    assert found.stays == {"uidmap": "their-tool needs it"}
    assert "uidmap" not in found.goes
    assert "their-tool" not in found.goes


@pytest.mark.usefixtures("apt")
@pytest.mark.parametrize("record", [None, before(known=False)])
def test_without_a_record_nothing_goes_on_a_guess(record: Before | None, tmp_path: Path) -> None:
    found = packages.chosen(record, ASKED, (), tmp_path)
    assert found.goes == ()
    assert set(found.stays) == ASKED


def test_a_purge_ends_what_a_killed_one_began_and_asks_for_nothing_unknown(
    apt: Apt, tmp_path: Path
) -> None:
    packages.purge(["caddy", "gone-already"], tmp_path)
    assert apt.ran[1] == "/usr/bin/dpkg --configure -a"
    assert apt.ran[-1].endswith("purge caddy")


def test_what_a_killed_purge_left_behind_goes_with_the_next(apt: Apt, tmp_path: Path) -> None:
    packages.purge(["caddy", "libnss3"], tmp_path)
    # Cut in the middle: nobody could tell any more why the library had come.
    apt.here.remove("caddy")
    found = packages.chosen(before("curl", "incus-base", "uidmap"), ASKED, (), tmp_path)
    assert found.goes == ("libnss3",)


def test_apts_refusal_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_APT_S", 5)
    with pytest.raises(RemoveError, match="that is how it failed: mend it"):
        packages._run(["/bin/sh", "-c", "echo that is how it failed >&2; exit 1"])
