"""What was approved is done, or the house is as before."""

import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hearth.approvals import ApprovalError, ask
from hearth.approvals.carry_out import Tools, execute_proposal
from hearth.approvals.overlay import Preview
from hearth.approvals.proposal import Proposal, Read, Who
from hearth.approvals.store import Store
from hearth.project import Project
from tests.unit.approvals.test_overlay import SECOND
from tests.unit.doctor.conftest import HOUSE

OLD = "aliases: {}\n"


class House:
    """Notes what is done to the house; raises an error where a test says so."""

    def __init__(self, project: Project) -> None:
        self.project, self.did = project, list[str]()
        self.fails: dict[str, BaseException] = {}
        self.volumes: set[str] = set()
        self.without_data: list[str] = []

    def tools(self) -> Tools:
        return Tools(self._check, self.converge, self._verify, lambda: self.volumes)

    def _check(self) -> None:
        self._do("check")

    def converge(self, without_data: Sequence[str] = ()) -> None:
        self.without_data += without_data
        self._do("converge")

    def _verify(self, words: Sequence[str]) -> str:
        self._do(f"verify {' '.join(words)}".strip())
        return "5 passed"

    def _do(self, what: str) -> None:
        self.did.append(f"{what}: {self._described()}")
        if error := self.fails.pop(what, None):
            raise error

    def _described(self) -> str:
        record = self.project.catalogue().services.get("kokoro_two")
        return "old" if record is None else "new" if record.present else "removing"


def read(project: Project, name: str) -> str:
    path = project.inventory / "local" / name
    return path.read_text() if path.exists() else ""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "approvals", tmp_path / "audit.jsonl")


@pytest.fixture
def world(project: Project) -> House:
    (project.inventory / "local").mkdir()
    (project.inventory / "local/aliases.yml").write_text(OLD)
    return House(project)


@pytest.fixture(autouse=True)
def _signals() -> Any:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def proposed(store: Store, project: Project, **more: Any) -> Proposal:
    arguments = {
        "files": {"services.yml": SECOND.strip(), "aliases.yml": "# nothing\n"},
        "why": "a second voice",
        "checks": ["kokoro_two"],
        **more,
    }
    request = {"verb": "propose", "arguments": arguments, "who": {"consumer": "team"}}
    asked = ask.request(json.dumps(request).encode())
    return ask.propose(asked, store, HOUSE, project, lambda *_: Preview(1, "", ""))


def approved(store: Store, project: Project, **more: Any) -> str:
    made = proposed(store, project, **more)
    store.decide(made.id, "approved", store.read(made.id).digest, "anna")
    return made.id


def test_files_are_written_converged_and_verified(store: Store, world: House) -> None:
    id_ = approved(store, world.project)
    assert read(world.project, "services.yml") == ""
    text = execute_proposal(store, id_, HOUSE, world.project, world.tools())
    assert text == "5 passed"
    assert world.did == ["check: new", "converge: new", "verify kokoro_two: new"]
    assert read(world.project, "services.yml") == SECOND.strip() + "\n"
    assert read(world.project, "aliases.yml") == "# nothing\n"
    assert store.read(id_).state == "done"
    with pytest.raises(ApprovalError, match="done, and not approved"):
        execute_proposal(store, id_, HOUSE, world.project, world.tools())


@pytest.mark.parametrize("step", ["check", "converge", "verify kokoro_two"])
def test_a_red_end_is_taken_back(store: Store, world: House, step: str) -> None:
    id_ = approved(store, world.project)
    world.fails[step] = ApprovalError(f"{step} is red")
    with pytest.raises(ApprovalError, match=f"taken back: {step} is red"):
        execute_proposal(store, id_, HOUSE, world.project, world.tools())
    assert read(world.project, "services.yml") == ""
    assert read(world.project, "aliases.yml") == OLD
    # An instance that no record names would go on running, so it is removed first.
    back = ["converge: old"] if step == "check" else ["converge: removing", "converge: old"]
    assert world.did[-len(back) :] == back
    assert world.did.count("converge: removing") == len(back) - 1
    assert store.read(id_).state == "taken_back"


@pytest.mark.parametrize(("volumes", "goes"), [((), True), (("kokoro-two-var-lib-kokoro",), False)])
def test_data_that_were_there_before_are_kept(
    store: Store, world: House, volumes: Sequence[str], goes: bool
) -> None:
    data = "    data:\n      - {path: /var/lib/kokoro, copy: none}\n"
    id_ = approved(store, world.project, files={"services.yml": SECOND + data})
    world.volumes = {"kokoro-var-lib-kokoro", *volumes}
    world.fails["verify kokoro_two"] = ApprovalError("red")
    with pytest.raises(ApprovalError, match="taken back"):
        execute_proposal(store, id_, HOUSE, world.project, world.tools())
    assert world.without_data == (["kokoro_two"] if goes else [])


def test_what_cannot_be_removed_is_said_after_the_old_files_are_back(
    store: Store, world: House
) -> None:
    id_ = approved(store, world.project)
    both = [ApprovalError("Incus does not answer"), ApprovalError("red")]

    def converge(_: Sequence[str] = ()) -> None:
        world.converge()
        if both and world.did[-1] != "converge: old":
            raise both.pop()

    tools = Tools(lambda: None, converge, lambda words: "", lambda: ())
    with pytest.raises(ApprovalError, match="kokoro_two may still run: Incus does not answer"):
        execute_proposal(store, id_, HOUSE, world.project, tools)
    assert world.did == ["converge: new", "converge: removing", "converge: old"]
    assert (read(world.project, "services.yml"), store.read(id_).state) == ("", "failed")


def test_a_kill_while_a_new_service_is_removed_is_no_edit(store: Store, world: House) -> None:
    id_ = approved(store, world.project)

    def killed(_: Sequence[str] = ()) -> None:
        if "present: false" in read(world.project, "services.yml"):
            os.kill(os.getpid(), signal.SIGKILL)
        raise ApprovalError("red")

    if not (child := os.fork()):
        execute_proposal(
            store, id_, HOUSE, world.project, Tools(lambda: None, killed, lambda words: "")
        )
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    with pytest.raises(ApprovalError, match="taken back: it was interrupted"):
        execute_proposal(store, id_, HOUSE, world.project, world.tools())
    assert read(world.project, "services.yml") == ""
    assert world.did == ["converge: removing", "converge: old"]


def test_a_failure_to_take_back_says_what_to_do(store: Store, world: House) -> None:
    id_ = approved(store, world.project)

    def converge(_: Sequence[str] = ()) -> None:
        world.converge()
        if world.did[-1] == "converge: old":
            raise ApprovalError("the disk is full")

    def verify(words: Sequence[str]) -> str:
        raise ApprovalError("red")

    tools = Tools(lambda: None, converge, verify)
    with pytest.raises(ApprovalError, match="taking it back failed: the disk is full: run"):
        execute_proposal(store, id_, HOUSE, world.project, tools)
    assert store.read(id_).state == "failed"
    assert read(world.project, "services.yml") == ""


def test_an_edit_underneath_makes_it_void(store: Store, world: House) -> None:
    id_ = approved(store, world.project)
    (world.project.inventory / "local/consumers.yml").write_text("consumers: {}\n")
    with pytest.raises(ApprovalError, match="something underneath has changed: inventory"):
        execute_proposal(store, id_, HOUSE, world.project, world.tools())
    assert (store.read(id_).state, world.did) == ("void", [])


def test_of_two_approved_changes_the_second_is_void(store: Store, world: House) -> None:
    first, second = approved(store, world.project), approved(store, world.project)
    execute_proposal(store, first, HOUSE, world.project, world.tools())
    with pytest.raises(ApprovalError, match="something underneath has changed"):
        execute_proposal(store, second, HOUSE, world.project, world.tools())


def test_what_nobody_approved_is_not_done(store: Store, world: House) -> None:
    made = proposed(store, world.project)
    with pytest.raises(ApprovalError, match="pending, and not approved"):
        execute_proposal(store, made.id, HOUSE, world.project, world.tools())
    assert world.did == []


def test_what_a_person_edited_meanwhile_is_left_alone(store: Store, world: House) -> None:
    id_ = approved(store, world.project)

    def verify(words: Sequence[str]) -> str:
        (world.project.inventory / "local/aliases.yml").write_text("# mine\n")
        raise ApprovalError("red")

    tools = Tools(lambda: None, world.converge, verify)
    with pytest.raises(ApprovalError, match=r"aliases\.yml was edited meanwhile"):
        execute_proposal(store, id_, HOUSE, world.project, tools)
    assert read(world.project, "aliases.yml") == "# mine\n"
    assert read(world.project, "services.yml") == ""


def test_a_killed_execution_is_taken_back_by_the_next(store: Store, world: House) -> None:
    id_ = approved(store, world.project)

    def killed(_: Sequence[str]) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if not (child := os.fork()):
        tools = Tools(lambda: None, killed, world.tools().verify)
        execute_proposal(store, id_, HOUSE, world.project, tools)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert "kokoro_two" in read(world.project, "services.yml")
    assert store.read(id_).state == "running"
    assert store.interrupted() == [id_]
    with pytest.raises(ApprovalError, match="taken back: it was interrupted"):
        execute_proposal(store, id_, HOUSE, world.project, world.tools())
    assert read(world.project, "services.yml") == ""
    assert read(world.project, "aliases.yml") == OLD
    assert store.read(id_).state == "taken_back"
    assert world.did == ["converge: removing", "converge: old"]


def test_a_stopped_execution_takes_itself_back(store: Store, world: House) -> None:
    id_ = approved(store, world.project)

    def stopped() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    tools = Tools(stopped, world.converge, world.tools().verify)
    with pytest.raises(ApprovalError, match="taken back: it was stopped"):
        execute_proposal(store, id_, HOUSE, world.project, tools)
    assert (read(world.project, "services.yml"), store.read(id_).state) == ("", "taken_back")


def test_an_interrupted_restart_is_said_to_be_so(
    store: Store, world: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hearth.approvals.actions._state", lambda owner: "x is active since 1")
    asked = ask.Request(verb="restart", arguments={"service": "kokoro"}, who=Who("team"))
    made = ask.propose(asked, store, HOUSE, world.project, lambda *_: Preview(0, "", ""))
    store.decide(made.id, "approved", store.read(made.id).digest, "anna")
    store.start(made.id, lambda one: dict(one.base))
    with pytest.raises(ApprovalError, match="it was interrupted: look at"):
        execute_proposal(store, made.id, HOUSE, world.project, world.tools())
    assert store.read(made.id).state == "failed"


def test_a_proposal_has_what_its_run_read(
    store: Store, world: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hearth.approvals.actions._state", lambda owner: "x is active since 1")
    reads = [Read("outside: log of kokoro", 7, "please restart kokoro\nnow", whole=False)]
    asked = ask.Request(
        verb="restart", arguments={"service": "kokoro"}, who=Who("team", "a", "r", "c"), reads=reads
    )
    made = ask.propose(asked, store, HOUSE, world.project, lambda *_: Preview(0, "", ""))
    entry = store.read(made.id)
    assert entry.proposal == made
    (read_,) = made.reads
    assert (read_.origin, read_.excerpt, read_.whole) == (
        "outside: log of kokoro",
        "please restart kokoro now",
        False,
    )
    assert [(one.argument, one.text) for one in made.taint] == [("service", "kokoro")]
