"""Names, sizes, addresses on the link, and the record of a machine."""

from pathlib import Path

import pytest

from tests.lab_machine import model
from tests.lab_machine.command import LabError
from tests.lab_machine.model import Machine


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(model, "STATE", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["", "A", "1a", "-a", "a b", "a/b", "..", "abcdefghijkl", "a\n"])
def test_a_name_that_is_not_valid_for_an_interface_is_rejected(name: str) -> None:
    with pytest.raises(LabError, match="1 to 11 lower-case letters"):
        model.check_name(name)


def test_the_longest_name_fits_its_interfaces() -> None:
    machine = Machine(model.check_name("abcdefghijk"), 1, 10, 1)
    assert len(machine.bridge) <= 15
    assert len(f"vb-{machine.name}") <= 15


@pytest.mark.parametrize("tag", ["", "..", ".x", "a/b", "a b"])
def test_a_tag_outside_its_folder_is_rejected(tag: str) -> None:
    with pytest.raises(LabError, match="tag"):
        model.check_tag(tag)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("24G", 24 << 30),
        ("24GB", 24 << 30),
        ("1 GiB", 1 << 30),
        ("300M", 300 << 20),
        ("1t", 1 << 40),
    ],
)
def test_sizes(text: str, size_bytes: int) -> None:
    assert model.parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "24", "G", "-1G", "1.5G", "24GX"])
def test_an_invalid_size_is_rejected(text: str) -> None:
    with pytest.raises(LabError, match="such as 24G"):
        model.parse_size(text)


def test_a_house_gets_the_first_free_lan() -> None:
    known = [Machine("a", 1, 10, 1), Machine("c", 3, 10, 1)]
    assert model.allot(known, None) == (2, 10)
    assert model.allot(known, None, busy={2}) == (4, 10)


def test_a_guest_gets_a_place_in_its_house() -> None:
    known = [Machine("a", 7, 10, 1), Machine("g", 7, 20, 1, house="a"), Machine("b", 8, 10, 1)]
    assert model.allot(known, "a") == (7, 21)
    assert model.allot(known, "b") == (8, 20)
    with pytest.raises(LabError, match="'x' does not exist"):
        model.allot(known, "x")


def test_a_guest_resolves_through_its_house_and_a_house_through_the_outer_end() -> None:
    assert Machine("a", 7, 10, 1).resolver == "10.99.7.1"
    guest = Machine("g", 7, 20, 1, house="a")
    assert (guest.resolver, guest.address, guest.bridge) == ("10.99.7.10", "10.99.7.20", "hl-a")


def test_no_free_network_is_reported() -> None:
    with pytest.raises(LabError, match="all 254"):
        model.allot([], None, busy=set(range(1, 255)))


def test_a_record_is_read_back_unchanged(state: Path) -> None:
    machine = Machine("a", 1, 10, 5, names={"github.com": "10.99.1.1"}, binds={"/x": "/y"})
    model.store(machine, ready=True)
    assert model.load("a").ready
    assert model.load("a").names == {"github.com": "10.99.1.1"}
    assert [known.name for known in model.load_all()] == ["a"]
    assert not list(state.glob("a/.*"))


def test_an_unreadable_record_is_reported_and_does_not_hide_the_others(state: Path) -> None:
    model.store(Machine("a", 1, 10, 5))
    (state / "b").mkdir()
    (state / "b" / "machine.json").write_text('{"name": "b"')
    with pytest.raises(LabError, match="destroy b"):
        model.load("b")
    assert [known.name for known in model.load_all()] == ["a"]


def test_the_lock_is_not_taken_on_a_folder_that_is_gone(state: Path) -> None:
    with model.locked():
        (state / "x").mkdir()
    (state / "x").rmdir()
    state.rmdir()
    with model.locked():
        assert state.is_dir()
