"""A proposal is carried out once, as it was approved, in time, or not at all."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from hearth.approvals import ApprovalError
from hearth.approvals.proposal import LIFE_S, Proposal, Who, digest_of, parse
from hearth.approvals.store import KEPT_S, PENDING_OF_ONE, Decision, End, Store
from tests.unit.approvals.conftest import BASE, NOW, Clock, proposal


def same(one: Proposal) -> dict[str, str]:
    return dict(one.base)


def test_a_proposal_goes_from_pending_to_done(store: Store) -> None:
    made = proposal()
    digest = store.add(made)
    assert store.read(made.id).state == "pending"
    store.decide(made.id, "approved", digest, "anna, by passkey")
    assert store.read(made.id).state == "approved"
    assert store.start(made.id, same) == made
    assert store.read(made.id).state == "running"
    store.end(made.id, "done", "restarted")
    entry = store.read(made.id)
    assert (entry.state, entry.text, entry.proposal) == ("done", "restarted", made)
    assert entry.steps["decision"].by == "anna, by passkey"


@pytest.mark.parametrize("decision", [d for d in get_args(Decision) if d != "approved"])
def test_only_an_approved_one_is_started(store: Store, decision: Decision) -> None:
    made = proposal()
    digest = store.add(made)
    with pytest.raises(ApprovalError, match="pending, and not approved"):
        store.start(made.id, same)
    store.decide(made.id, decision, digest, "anna")
    with pytest.raises(ApprovalError, match=f"{decision}, and not approved"):
        store.start(made.id, same)
    assert store.read(made.id).state == decision


@pytest.mark.parametrize("end", get_args(End))
def test_an_approval_is_used_once(store: Store, approved: Callable[[], Proposal], end: End) -> None:
    made = approved()
    with pytest.raises(ApprovalError, match="only a running proposal"):
        store.end(made.id, end, "")
    store.start(made.id, same)
    with pytest.raises(ApprovalError, match="running, and not approved"):
        store.start(made.id, same)
    store.end(made.id, end, "")
    with pytest.raises(ApprovalError, match=f"{end}, and not approved"):
        store.start(made.id, same)
    with pytest.raises(ApprovalError, match="only a running proposal"):
        store.end(made.id, "done", "")


def test_a_decided_one_is_not_decided_again(store: Store, approved: Callable[[], Proposal]) -> None:
    made = approved()
    for decision in get_args(Decision):
        with pytest.raises(ApprovalError, match=f"approved: it cannot be {decision} again"):
            store.decide(made.id, decision, digest_of(made.canonical()), "berta")
    assert store.read(made.id).steps["decision"].by == "anna, by passkey"


def test_the_approval_of_one_is_not_that_of_another(store: Store) -> None:
    first, second = proposal(), proposal()
    digest = store.add(first)
    store.add(second)
    with pytest.raises(ApprovalError, match="not the one that was shown"):
        store.decide(second.id, "approved", digest, "anna")
    # Nor when its file is put in the place of the other.
    (store.folder / f"{second.id}.json").write_bytes(first.canonical())
    with pytest.raises(ApprovalError, match="damaged or was edited"):
        store.decide(second.id, "approved", digest, "anna")


def test_nothing_is_approved_or_started_after_fifteen_minutes(
    store: Store, clock: Clock, approved: Callable[[], Proposal]
) -> None:
    pending, late = proposal(), approved()
    digest = store.add(pending)
    clock.now = NOW + LIFE_S - 1
    assert store.read(pending.id).state == "pending"
    clock.now = NOW + LIFE_S
    with pytest.raises(ApprovalError, match="is expired"):
        store.decide(pending.id, "approved", digest, "anna")
    with pytest.raises(ApprovalError, match="is expired"):
        store.start(late.id, same)
    # A clock that is set back does not bring them to life again.
    clock.now = NOW + 1
    assert {one.state for one in store.entries()} == {"expired"}


def test_a_clock_before_the_proposal_is_no_longer_life(store: Store, clock: Clock) -> None:
    made = proposal()
    store.add(made)
    clock.now = NOW - 3600
    assert store.read(made.id).state == "expired"


def test_one_that_expires_while_its_base_is_read_is_void(
    store: Store, clock: Clock, approved: Callable[[], Proposal]
) -> None:
    made = approved()

    def slow(one: Proposal) -> dict[str, str]:
        clock.now += LIFE_S
        return same(one)

    with pytest.raises(ApprovalError, match="not started within 15 minutes"):
        store.start(made.id, slow)


def test_a_change_underneath_makes_it_void(store: Store, approved: Callable[[], Proposal]) -> None:
    made = approved()
    with pytest.raises(ApprovalError, match=r"has changed: unit of kokoro; ask again"):
        store.start(made.id, lambda _: {"unit of kokoro": "active since 2"})
    assert store.read(made.id).state == "void"
    with pytest.raises(ApprovalError, match="void, and not approved"):
        store.start(made.id, same)


def test_something_that_is_gone_or_new_is_a_change_too(
    store: Store, approved: Callable[[], Proposal]
) -> None:
    first, second = approved(), approved()
    with pytest.raises(ApprovalError, match="unit of kokoro"):
        store.start(first.id, lambda _: {})
    with pytest.raises(ApprovalError, match="changed: more"):
        store.start(second.id, lambda _: {**BASE, "more": "x"})


def test_edited_bytes_are_not_carried_out(store: Store, approved: Callable[[], Proposal]) -> None:
    made = approved()
    path = store.folder / f"{made.id}.json"
    content = json.loads(made.canonical())
    content["arguments"]["service"] = "ollama"
    # As canonical bytes, which are valid by themselves.
    path.write_bytes(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())
    assert parse(path.read_bytes()).arguments == {"service": "ollama"}
    with pytest.raises(ApprovalError, match="not what was approved"):
        store.start(made.id, same)
    assert store.read(made.id).state == "void"


def test_bytes_with_the_same_meaning_are_edited_bytes(
    store: Store, approved: Callable[[], Proposal]
) -> None:
    made = approved()
    path = store.folder / f"{made.id}.json"
    path.write_bytes(made.canonical() + b"\n")
    with pytest.raises(ApprovalError, match="damaged or was edited"):
        store.start(made.id, same)
    path.write_bytes(made.canonical())
    # It stays void, whatever is written back.
    assert store.read(made.id).state == "void"


def test_an_edited_pending_one_is_not_approved(store: Store) -> None:
    made = proposal()
    digest = store.add(made)
    content = json.loads(made.canonical())
    content["summary"] = "something else"
    stored = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    (store.folder / f"{made.id}.json").write_bytes(stored)
    with pytest.raises(ApprovalError, match="not the one that was shown"):
        store.decide(made.id, "approved", digest, "anna")


def _race(count: int, act: Callable[[], object]) -> list[str]:
    """Do one thing in many threads at once; return how each ended."""
    ready, results = threading.Barrier(count), list[str]()

    def one() -> None:
        ready.wait()
        try:
            act()
            results.append("won")
        except ApprovalError as error:
            results.append(str(error))

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_of_concurrent_decisions_and_starts_one_wins(store: Store) -> None:
    for _ in range(5):
        made = proposal(who=Who("team"))
        digest = store.add(made)
        decided = _race(8, lambda m=made, d=digest: store.decide(m.id, "approved", d, "anna"))  # type: ignore[misc]
        assert decided.count("won") == 1
        assert _race(8, lambda m=made: store.start(m.id, same)).count("won") == 1  # type: ignore[misc]
        store.end(made.id, "done", "")


@pytest.mark.parametrize("id_", ["", "../../etc/passwd", "a" * 26, "x" * 25, "a/b", ".lock"])
def test_only_an_id_becomes_a_path(store: Store, id_: str) -> None:
    if id_ == "a" * 26:
        with pytest.raises(ApprovalError, match="no proposal has the ID"):
            store.read(id_)
        return
    with pytest.raises(ApprovalError, match="letters and digits"):
        store.read(id_)


def test_a_program_cannot_flood_the_person(store: Store) -> None:
    for _ in range(PENDING_OF_ONE):
        store.add(proposal())
    with pytest.raises(ApprovalError, match="are waiting for a person already"):
        store.add(proposal())
    store.add(proposal(who=Who("other")))


def test_a_proposal_from_before_a_client_was_named_is_not_damaged() -> None:
    stored = proposal().canonical()
    assert b"client" not in stored
    assert parse(stored).canonical() == stored
    named = proposal(who=Who("agents", client="open_webui", person="Anna"))
    assert parse(named.canonical()) == named


def test_the_files_are_for_root_alone(store: Store) -> None:
    made = proposal()
    store.add(made)
    assert store.folder.stat().st_mode & 0o777 == 0o700
    assert (store.folder / f"{made.id}.json").stat().st_mode & 0o777 == 0o600


def test_old_ones_are_forgotten(store: Store, clock: Clock, tmp_path: Path) -> None:
    import os

    old = proposal()
    store.add(old)
    for path in store.folder.iterdir():
        os.utime(path, (NOW, NOW))
    clock.now = NOW + KEPT_S + 1
    store.add(proposal(made=int(clock.now), expires=int(clock.now) + LIFE_S))
    with pytest.raises(ApprovalError, match="no proposal"):
        store.read(old.id)


def test_only_the_newest_ones_are_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setattr("hearth.approvals.store.KEPT", 3)
    made = []
    for age in range(6, 0, -1):
        made.append(proposal(who=Who("team")))
        store.decide(made[-1].id, "refused", store.add(made[-1]), "anna")
        for path in store.folder.glob(f"{made[-1].id}.*"):
            os.utime(path, (NOW - age, NOW - age))
    (store.folder / "passkeys.list").write_text("[]")
    store.add(proposal())
    kept = {one.proposal.id for one in store.entries()}
    assert {one.id for one in made} & kept == {one.id for one in made[-2:]}
    assert len([*store.folder.glob("*.decision.json")]) == 2
    assert (store.folder / "passkeys.list").exists()


def test_a_running_one_without_a_process_is_interrupted(
    store: Store, approved: Callable[[], Proposal]
) -> None:
    made = approved()
    assert store.interrupted() == []
    with store.executing(0):
        store.start(made.id, same)
        assert store.interrupted() == []
        with pytest.raises(ApprovalError, match="another approved change"), store.executing(0):
            pass
    assert store.interrupted() == [made.id]
