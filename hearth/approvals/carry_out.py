"""Carry out an approved proposal: exactly what was approved, once, and nothing by halves."""

import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from hearth.approvals import ApprovalError, actions, overlay
from hearth.approvals.arguments import NewFiles, checked
from hearth.approvals.ask import base
from hearth.approvals.proposal import Proposal
from hearth.approvals.store import End, Store
from hearth.catalogue.house import House
from hearth.files import write_atomic
from hearth.project import Project

# One after the other; the next one waits this long, and is void then if its base has changed.
WAIT_S = 600.0
_MODE = 0o644


@dataclass(frozen=True, slots=True)
class Tools:
    """What changes the house and looks at it; each raises an error of one line.

    `check` validates the inventory, `converge` runs the playbook, `verify` the smoke tests whose
    names have one of these words, and returns one line.
    """

    check: Callable[[], object]
    converge: Callable[[], object]
    verify: Callable[[Sequence[str]], str]


class Stopped(BaseException):
    """The program was told to stop; nothing catches this but what takes a change back."""


def carry_out(store: Store, id_: str, house: House, project: Project, tools: Tools) -> str:
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
    files = arguments.texts
    try:
        _note_before(store, proposal, project, files)
        for name, text in files.items():
            _write(overlay.target(project, name), text.encode())
        tools.check()
        tools.converge()
        text = tools.verify(arguments.checks)
    # Whatever it is, also the end of this program: the house goes back to what it was.
    except BaseException as error:
        why = "it was stopped" if isinstance(error, Stopped) else f"{error}".strip()
        _take_back(store, proposal, project, tools, why or type(error).__name__)
    store.end(proposal.id, "done", text)
    return text


def _before(store: Store, proposal: Proposal) -> Path:
    # Not a step of the store: it ends otherwise.
    return store.folder / f"{proposal.id}.before"


def _note_before(
    store: Store, proposal: Proposal, project: Project, files: Mapping[str, str]
) -> None:
    """Keep the old files, so that a power cut at any time leads back to them."""
    old = {}
    for name in files:
        path = overlay.target(project, name)
        old[name] = path.read_bytes().decode("utf-8") if path.exists() else None
    write_atomic(_before(store, proposal), json.dumps(old).encode(), 0o600)


def _take_back(
    store: Store, proposal: Proposal, project: Project, tools: Tools, why: str
) -> NoReturn:
    """Put the old files back, converge again, and record that."""
    end: End = "taken_back"
    # A second signal must not stop this; a kill is found by the broker.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        if _put_back(store, proposal, project):
            tools.converge()
        text = f"taken back: {why}"
    except Exception as error:
        end, text = "failed", f"{why}; and taking it back failed: {error}: run `hearth up`"
    store.end(proposal.id, end, text)
    raise ApprovalError(text)


def _put_back(store: Store, proposal: Proposal, project: Project) -> bool:
    """Restore each file that has the proposed text; return whether one had it."""
    path = _before(store, proposal)
    if not path.exists():
        # It was stopped before the first file was written.
        return False
    _, arguments = checked(proposal.verb, dict(proposal.arguments))
    if not isinstance(arguments, NewFiles):
        raise ApprovalError("only files can be put back")
    proposed = arguments.texts
    restored, edited = False, []
    for name, old in json.loads(path.read_text(encoding="utf-8")).items():
        file = overlay.target(project, name)
        now = file.read_bytes() if file.exists() else None
        if now == (None if old is None else old.encode()):
            continue
        if now != proposed[name].encode():
            edited.append(name)
        elif old is None:
            file.unlink()
        else:
            _write(file, old.encode())
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
