"""The store of proposals: each moves through its states once, whoever tries it at the same time.

`ID.json` has the bytes that are approved. `ID.decision.json`, `ID.start.json` and `ID.end.json`
are its steps; each is linked into place complete, which fails where the step was already taken.
"""

import contextlib
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from pydantic import TypeAdapter, ValidationError

from hearth import audit
from hearth.approvals import ApprovalError
from hearth.approvals.proposal import Proposal, checked_id, digest_of, parse
from hearth.files import LockHeldError, locked, sync_folder
from hearth.paths import APPROVALS, AUDIT_LOG

Decision = Literal["approved", "refused", "expired", "void"]
Start = Literal["running", "expired", "void"]
End = Literal["done", "failed", "taken_back"]
State = Literal["pending"] | Decision | Start | End
_STEPS: dict[str, tuple[str, ...]] = {
    "decision": get_args(Decision),
    "start": get_args(Start),
    "end": get_args(End),
}
_DAY_S = 86_400
KEPT_S, KEPT = 30 * _DAY_S, 300
# More waiting ones than this are no longer read by the person who should decide.
PENDING_OF_ONE, PENDING = 5, 20
MOST_BYTES = 2 * 2**20
_TEXT = 4000
_LOCK = ".execute.lock"


@dataclass(frozen=True, slots=True)
class Step:
    """One transition: the state that it led to, when, by whom, and one line about it.

    `digest` is that of the bytes that were approved.
    """

    state: str
    at: int
    by: str = ""
    text: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A proposal, the digest of its stored bytes, and the steps that it has taken."""

    proposal: Proposal
    digest: str
    steps: Mapping[str, Step]

    @property
    def state(self) -> str:
        """The state that the last step led to."""
        return [*self.steps.values()][-1].state if self.steps else "pending"

    @property
    def text(self) -> str:
        """What the last step says about itself."""
        return [*self.steps.values()][-1].text if self.steps else ""


_STEP = TypeAdapter(Step)


class Store:
    """The proposals of a house, in a folder that only root can read; each step is audited."""

    def __init__(
        self,
        folder: Path = APPROVALS,
        log: Path = AUDIT_LOG,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder, self._log, self._clock = folder, log, clock

    def add(self, proposal: Proposal) -> str:
        """Store a new proposal and return its digest.

        Raises:
            ApprovalError: too many are waiting already.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._forget()
        self.check_room(proposal.who.consumer)
        stored = proposal.canonical()
        if len(stored) > MOST_BYTES:
            raise ApprovalError(f"the proposal has more than {MOST_BYTES // 2**20} MiB: cut it")
        audit.check(self._log)
        self._link(self.folder / f"{checked_id(proposal.id)}.json", stored)
        digest, by = digest_of(stored), proposal.who.consumer
        fields = {"approval": proposal.id, "by": by, "text": proposal.summary, "digest": digest}
        audit.record("approval", {"state": "pending", **fields}, self._log)
        return digest

    def check_room(self, consumer: str) -> None:
        """Raise ApprovalError if a person has too many proposals of this consumer to decide."""
        waiting = [one.proposal for one in self.entries() if one.state == "pending"]
        mine = [one for one in waiting if one.who.consumer == consumer]
        if len(mine) >= PENDING_OF_ONE or len(waiting) >= PENDING:
            raise ApprovalError(
                f"{len(waiting)} proposals are waiting for a person already: wait for a decision"
            )

    def read(self, id_: str) -> Entry:
        """Return one proposal with its steps; one that is too old has expired.

        Raises:
            ApprovalError: there is none of this ID, or its bytes are not what was stored.
        """
        entry = self._read(id_)
        if self._is_late(entry.proposal):
            if entry.state == "pending":
                entry = self._ended(entry, "decision", "nobody decided within 15 minutes")
            elif entry.state == "approved":
                entry = self._ended(entry, "start", "it was not started within 15 minutes")
        return entry

    def entries(self) -> list[Entry]:
        """Return all proposals, the newest first; damaged ones are left out."""
        found = []
        for path in self.folder.glob("*.json"):
            if path.suffixes == [".json"]:
                with contextlib.suppress(ApprovalError):
                    found.append(self.read(path.stem))
        return sorted(found, key=lambda one: -one.proposal.made)

    def decide(self, id_: str, decision: Decision, digest: str, by: str, text: str = "") -> None:
        """Approve or refuse a pending proposal whose stored bytes have this digest.

        Raises:
            ApprovalError: it is not pending, or is not the one that was shown.
        """
        entry = self.read(id_)
        if entry.digest != digest:
            raise ApprovalError("the stored proposal is not the one that was shown")
        if entry.state != "pending":
            raise ApprovalError(f"this proposal is {entry.state}: it cannot be {decision} again")
        self._step(id_, "decision", Step(decision, self._now(), by, text, digest))

    def start(self, id_: str, base: Callable[[Proposal], Mapping[str, str]]) -> Proposal:
        """Take an approved proposal to carry it out: nobody can take it a second time.

        `base` reads what the change depends on as it is now.

        Raises:
            ApprovalError: it is not approved, too old, edited, or something underneath has changed.
        """
        try:
            entry = self.read(id_)
        except ApprovalError as error:
            # Whatever is written back, this one is over.
            if self._read_step(checked_id(id_), "decision"):
                self._step(id_, "start", Step("void", self._now(), text=str(error)))
            raise
        if entry.state != "approved":
            raise ApprovalError(f"this proposal is {entry.state}, and not approved: {entry.text}")
        void = ""
        if entry.steps["decision"].digest != entry.digest:
            void = "what is stored is not what was approved"
        elif changed := _changed(entry.proposal.base, base(entry.proposal)):
            void = f"something underneath has changed: {changed}"
        # Reading the base takes a while.
        if not void and self._is_late(entry.proposal):
            void = "it was not started within 15 minutes"
        self._step(id_, "start", Step("void" if void else "running", self._now(), text=void))
        if void:
            raise ApprovalError(f"not done: {void}; ask again")
        return entry.proposal

    def end(self, id_: str, end: End, text: str) -> None:
        """Record how a running proposal ended."""
        if self._read(id_).state != "running":
            raise ApprovalError("only a running proposal can end")
        self._step(id_, "end", Step(end, self._now(), text=text[:_TEXT]))

    @contextlib.contextmanager
    def executing(self, within_s: float) -> Iterator[None]:
        """Hold the lock of the one execution at a time.

        Raises:
            ApprovalError: another one holds it for longer than `within_s`.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with locked(self.folder / _LOCK, within_s):
                yield
        except LockHeldError:
            raise ApprovalError("another approved change is being carried out") from None

    def interrupted(self) -> list[str]:
        """Return the proposals that are running although nothing carries them out."""
        running = [one.proposal.id for one in self.entries() if one.state == "running"]
        if not running:
            return []
        try:
            with self.executing(0):
                return [one for one in running if self._read(one).state == "running"]
        except ApprovalError:
            return []

    def _now(self) -> int:
        return int(self._clock())

    def _is_late(self, proposal: Proposal) -> bool:
        # A clock that was set back does not prolong it much.
        return not proposal.made - 5 <= self._clock() < proposal.expires

    def _read(self, id_: str) -> Entry:
        path = self.folder / f"{checked_id(id_)}.json"
        try:
            with path.open("rb") as stream:
                stored = stream.read(MOST_BYTES + 1)
        except FileNotFoundError:
            raise ApprovalError(f"no proposal has the ID {id_}") from None
        proposal = parse(stored)
        if proposal.id != id_:
            raise ApprovalError("the stored proposal is damaged or was edited")
        steps = {name: self._read_step(id_, name) for name in _STEPS}
        taken = {name: one for name, one in steps.items() if one}
        return Entry(proposal, digest_of(stored), taken)

    def _read_step(self, id_: str, name: str) -> Step | None:
        try:
            step = _STEP.validate_json((self.folder / f"{id_}.{name}.json").read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError:
            raise ApprovalError("the stored proposal is damaged or was edited") from None
        if step.state not in _STEPS[name]:
            raise ApprovalError("the stored proposal is damaged or was edited")
        return step

    def _ended(self, entry: Entry, step: str, text: str) -> Entry:
        id_ = entry.proposal.id
        # Somebody else may have seen it first.
        with contextlib.suppress(ApprovalError):
            self._step(id_, step, Step("expired", self._now(), text=text))
        return self._read(id_)

    def _step(self, id_: str, name: str, step: Step) -> None:
        """Take a step that nobody has taken; what cannot be audited must not happen."""
        audit.check(self._log)
        stored = json.dumps(asdict(step), sort_keys=True).encode()
        self._link(self.folder / f"{checked_id(id_)}.{name}.json", stored)
        fields = {"approval": id_, "by": step.by, "text": step.text, "digest": step.digest}
        audit.record("approval", {"state": step.state, **fields}, self._log)

    def _link(self, path: Path, content: bytes) -> None:
        """Create a file whole; ApprovalError if it exists."""
        fresh = self.folder / f".{secrets.token_hex(8)}.new"
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.link(fresh, path)
        except FileExistsError:
            raise ApprovalError("this was decided a moment ago: load the page again") from None
        finally:
            fresh.unlink(missing_ok=True)
        sync_folder(self.folder)

    def _forget(self) -> None:
        """Delete all but the newest proposals, and what a killed process left."""
        oldest = self._clock() - KEPT_S
        made = {path: _modified(path) for path in self.folder.glob("*.json")}
        proposals = [path for path in made if path.suffixes == [".json"]]
        for number, path in enumerate(sorted(proposals, key=lambda one: -made[one]), 1):
            if number >= KEPT or made[path] < oldest:
                path.unlink(missing_ok=True)
                for step in self.folder.glob(f"{path.stem}.*"):
                    step.unlink(missing_ok=True)
        for left in self.folder.glob(".*.new"):
            if _modified(left) < oldest:
                left.unlink(missing_ok=True)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return the names of what differs."""
    names = sorted(before.keys() | now.keys())
    return ", ".join(name for name in names if before.get(name) != now.get(name))
