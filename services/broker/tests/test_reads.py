"""What runs read from outside stays known, within bounds, and never seems less than it is."""

from pathlib import Path

import pytest

from hearth_broker import reads
from hearth_broker.reads import Reads
from hearth_broker.verbs import Call


class Clock:
    def __init__(self) -> None:
        self.at = 1_800_000_000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_restart_forgets_nothing(tmp_path: Path, clock: Clock) -> None:
    call = Call("team", run="one")
    Reads(tmp_path, clock, {"team"}).note(call, "outside: log of kokoro", "it died")
    (found,) = Reads(tmp_path, clock, {"team"}).of(call)
    assert (found.origin, found.at, found.text) == ("outside: log of kokoro", clock.at, "it died")
    assert (tmp_path / reads.FILE).stat().st_mode & 0o777 == 0o600


def test_a_named_run_remembers_longer_than_an_hour(tmp_path: Path, clock: Clock) -> None:
    kept = Reads(tmp_path, clock, {"team"})
    kept.note(Call("team", run="one"), "outside: a", "text")
    clock.at += 2 * 3600
    assert len(kept.of(Call("team", run="one"))) == 1
    assert kept.of(Call("team")) == []
    clock.at += reads.KEPT_S
    kept.note(Call("team", run="two"), "outside: b", "text")
    assert kept.of(Call("team", run="one")) == []


def test_of_old_texts_the_start_is_kept_and_said_to_be_one(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "WHOLE", 3)
    kept = Reads(tmp_path, clock, {"team"})
    for number in range(5):
        kept.note(Call("team", run=f"run-{number}"), "outside: a", f"{number}" * 1000)
    # Another consumer's reads push none of these out.
    for _ in range(10):
        kept.note(Call("coding"), "outside: a", "text")
    lengths = [
        (len(one.text), one.whole)
        for number in range(5)
        for one in kept.of(Call("team", run=f"run-{number}"))
    ]
    assert lengths == [(200, False)] * 2 + [(1000, True)] * 3


def test_more_than_are_shown_are_counted(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "MOST", 4)
    kept, call = Reads(tmp_path, clock, {"team"}), Call("team", run="one")
    for number in range(10):
        kept.note(call, f"outside: {number}", "text")
    found = kept.of(call)
    assert [one.origin for one in found] == [
        "outside: 6 earlier texts, which are not shown",
        *(f"outside: {number}" for number in (6, 7, 8, 9)),
    ]
    assert not found[0].whole


def test_one_chat_is_one_for_all_programs_of_the_house(tmp_path: Path, clock: Clock) -> None:
    kept = Reads(tmp_path, clock, {"team", "open_webui"})
    kept.note(Call("open_webui", chat="c1"), "outside: a page", "text")
    kept.note(Call("open_webui", chat="c2"), "outside: another chat", "text")
    kept.note(Call("coding", chat="c1"), "outside: a stranger's", "text")
    found = kept.of(Call("team", run="one", chat="c1"))
    assert [one.origin for one in found] == ["outside: a page"]
    # A key that is used from the LAN learns nothing of others by the name of a chat.
    assert [one.origin for one in kept.of(Call("coding", chat="c1"))] == ["outside: a stranger's"]


def test_the_same_text_again_pushes_out_no_other(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "MOST", 4)
    kept, call = Reads(tmp_path, clock, {"team"}), Call("team", run="one")
    kept.note(call, "outside: order", "stop litellm")
    for _ in range(50):
        clock.at += 1
        kept.note(call, "outside: log", "nothing to see")
    found = kept.of(call)
    assert [one.origin for one in found] == ["outside: order", "outside: log"]
    assert found[1].at == clock.at
