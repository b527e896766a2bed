"""Carry out an approved proposal: exactly what was approved, once, and nothing by halves."""

import json
import os
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from hearth.approvals import ApprovalError, actions, overlay
from hearth.approvals.arguments import NewFiles, checked
from hearth.approvals.ask import base
from hearth.approvals.new_services import as_removed, services_added
from hearth.approvals.proposal import Proposal
from hearth.approvals.store import End, Store
from hearth.catalogue.house import House
from hearth.files import write_atomic
from hearth.project import Project

# One after the other; the next one waits this long, and is void then if its base has changed.
WAIT_S = 600.0
_MODE = 0o644
SERVICES = "services.yml"


@dataclass(frozen=True, slots=True)
class Tools:
    """What changes the house and looks at it; each raises an error of one line.

    `check` validates the inventory, `converge` runs the playbook and deletes the data of these
    removed services, `verify` runs the smoke tests whose names have one of these words and returns
    one line, `volumes` returns the names of the volumes with data.
    """

    check: Callable[[], object]
    converge: Callable[[Sequence[str]], object]
    verify: Callable[[Sequence[str]], str]
    volumes: Callable[[], Collection[str]] = tuple


class Stopped(BaseException):
    """The program was told to stop; nothing catches this but what takes a change back."""


def execute_proposal(store: Store, id_: str, house: House, project: Project, tools: Tools) -> str:
    """Do what was approved, record how it ended, and return that in one line.

    A proposal whose execution was killed is taken back instead.

    Raises:
        ApprovalError: nothing was done, it failed, or it was taken back.
    """
    signal.signal(signal.SIGTERM, _stop)
    with store.executing(WAIT_S):
        entry = store.read(id_)
        if entry.state == "running":
            _recover(store, entry.proposal, project, tools)
        proposal = store.start(id_, lambda one: base(one, house, project))
        verb, arguments = checked(proposal.verb, dict(proposal.arguments))
        if isinstance(arguments, NewFiles):
            return _apply(store, proposal, arguments, project, tools)
        try:
            text = actions.do(verb, arguments, house)
        except ApprovalError as error:
            store.end(id_, "failed", str(error))
            raise
        store.end(id_, "done", text)
        return text


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Stopped


def _recover(store: Store, proposal: Proposal, project: Project, tools: Tools) -> NoReturn:
    """Take back what a killed execution left, or say that nobody knows."""
    why = "it was interrupted"
    if proposal.verb == "propose":
        _take_back(store, proposal, project, tools, why)
    store.end(proposal.id, "failed", why)
    raise ApprovalError(f"{why}: look at `hearth status`")


def _apply(
    store: Store, proposal: Proposal, arguments: NewFiles, project: Project, tools: Tools
) -> str:
    """Write the files, converge and verify; on any error take everything back."""
    files, is_valid = arguments.texts, False
    try:
        _note_before(store, proposal, project, files, tools.volumes())
        for name, text in files.items():
            _write(overlay.target(project, name), text.encode())
        tools.check()
        is_valid = True
        tools.converge(())
        text = tools.verify(arguments.checks)
    # Whatever it is, also the end of this program: the house goes back to what it was.
    except BaseException as error:
        why = "it was stopped" if isinstance(error, Stopped) else f"{error}".strip()
        _take_back(store, proposal, project, tools, why or type(error).__name__, is_valid)
    store.end(proposal.id, "done", text)
    return text


def _before(store: Store, proposal: Proposal) -> Path:
    # Not a step of the store: it ends otherwise.
    return store.folder / f"{proposal.id}.before"


def _note_before(
    store: Store,
    proposal: Proposal,
    project: Project,
    files: Mapping[str, str],
    volumes: Collection[str],
) -> None:
    """Keep the old files, so that a power cut at any time leads back to them."""
    old = {}
    for name in files:
        path = overlay.target(project, name)
        old[name] = path.read_bytes().decode("utf-8") if path.exists() else None
    before = {"files": old, "volumes": sorted(volumes)}
    write_atomic(_before(store, proposal), json.dumps(before).encode(), 0o600)


def _take_back(
    store: Store,
    proposal: Proposal,
    project: Project,
    tools: Tools,
    why: str,
    converged: bool = True,
) -> NoReturn:
    """Put the old files back, converge again, and record that."""
    end: End = "taken_back"
    # A second signal must not stop this; a kill is found by the broker.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        _restore(store, proposal, project, tools, converged)
        text = f"taken back: {why}"
    except Exception as error:
        end, text = "failed", f"{why}; and taking it back failed: {error}: run `hearth up`"
    store.end(proposal.id, end, text)
    raise ApprovalError(text)


def _restore(
    store: Store, proposal: Proposal, project: Project, tools: Tools, converged: bool
) -> None:
    """Remove the services that the proposal added, and converge the old files."""
    path = _before(store, proposal)
    if not path.exists():
        # It was stopped before the first file was written.
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    _, arguments = checked(proposal.verb, dict(proposal.arguments))
    if not isinstance(arguments, NewFiles):
        raise ApprovalError("only files can be put back")
    old, proposed = before["files"].get(SERVICES), arguments.texts.get(SERVICES, "")
    added = services_added(proposed, old or "", (project.inventory / SERVICES).read_text("utf-8"))
    removing = as_removed(old or "", proposed, added)
    if not _put_back(project, arguments.texts, before["files"], removing):
        return
    left = ""
    if added and converged:
        try:
            _write(overlay.target(project, SERVICES), removing.encode())
            removed = project.house().removed
            kept = {*before["volumes"]}
            tools.converge([n for n in added if not kept & {v.name for v in removed[n].volumes}])
        except Exception as error:
            left = f"{', '.join(added)} may still run: {error}"
        _put_back(project, arguments.texts, before["files"], removing)
    tools.converge(())
    if left:
        raise ApprovalError(left)


def _put_back(
    project: Project, proposed: Mapping[str, str], old: Mapping[str, str | None], removing: str
) -> bool:
    """Restore each file that has a text of ours; return whether one had it."""
    restored, edited = False, []
    for name, text in old.items():
        file = overlay.target(project, name)
        now = file.read_bytes() if file.exists() else None
        if now == (None if text is None else text.encode()):
            continue
        ours = {proposed[name].encode()} | ({removing.encode()} if name == SERVICES else set())
        if now not in ours:
            edited.append(name)
        elif text is None:
            file.unlink()
        else:
            _write(file, text.encode())
        restored = True
    if edited:
        raise ApprovalError(f"{', '.join(edited)} was edited meanwhile, and was left as it is")
    return restored


def _write(path: Path, content: bytes) -> None:
    """Write a file of the inventory, which belongs to the owner of the inventory."""
    owner = path.parents[1].stat()
    if not path.parent.exists():
        path.parent.mkdir()
        os.chown(path.parent, owner.st_uid, owner.st_gid)
    mode = path.stat().st_mode & 0o777 if path.exists() else _MODE
    write_atomic(path, content, mode)
    os.chown(path, owner.st_uid, owner.st_gid)
