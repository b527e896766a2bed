"""The loop: look at what is there, settle what is known, pull what is missing, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import httpx

from hearth_model_puller import PullerError, ollama, room, settle, state
from hearth_model_puller.ollama import Present, Progress
from hearth_model_puller.rate import Rate
from hearth_model_puller.retries import Retries
from hearth_model_puller.state import Board, Entry, Ledger, Record
from hearth_model_puller.wanted import Model, Wanted, read
from hearth_model_puller.world import World

LOOK_S = 2.0
ROOM_LOOK_S = 10.0
HEARTBEAT_S = 60.0
NOTE_EVERY_S = 1.0


@dataclass(slots=True)
class Puller:
    """Keeps one Ollama's models as models.json says. `run` never returns; cancel it to stop."""

    client: httpx.AsyncClient
    models_file: Path
    board: Board
    ledger: Ledger
    world: World
    read_only: bool = False
    retries: Retries = field(init=False)
    wanted: Wanted = field(default_factory=Wanted)
    have_bytes: dict[str, int] = field(default_factory=dict)
    seen: tuple[int, int, int] | None = None
    list_trouble: str = ""
    crowded: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Set up what hangs on the clock."""
        self.retries = Retries(self.world.monotonic, self.world.chance)

    async def run(self) -> None:
        """Work for ever. When cancelled, say so in progress.json and leave nothing half-written."""
        try:
            while True:
                self._reread()
                pause_s = await self.step()
                self.board.write()
                await self._rest(pause_s)
        finally:
            for name, entry in self.board.entries.items():
                if entry.state == state.PULLING:
                    stopped = replace(entry, state=state.WAITING, reason="the puller was stopped")
                    self.board.entries[name] = replace(stopped, bytes_per_s=0.0)
            self.board.write()

    async def step(self) -> float:
        """Do what can be done now; return for how many seconds nothing more is due."""
        if self.seen is None:  # without a list nothing is wanted, and nothing is to be removed
            self.board.say(self.list_trouble)
            return HEARTBEAT_S
        try:
            present = await ollama.present(self.client)
            if not self.read_only:
                await self._remove_what_left(present)
            due = await self._settle_all(present)
        except PullerError as error:
            self._all_waiting()
            self.board.say(str(error))
            return LOOK_S
        self.board.say(self.list_trouble)
        self._look_for_room(due)
        waits_s = [self.retries.wait_s(model.key) for model in due]
        if 0.0 in waits_s:
            model = due[waits_s.index(0.0)]
            await self._pull(model, present.get(model.key))
            return 0.0
        return min([ROOM_LOOK_S if self.crowded else HEARTBEAT_S, *waits_s])

    def _look_for_room(self, due: list[Model]) -> None:
        """Let what a full disk kept away be tried as soon as there is room, whatever its wait."""
        free = self.world.free_bytes()
        lacking = {
            model.key
            for model in due
            if room.lacks_disk(model, self._have(model), free, self.world.margin_bytes)
        }
        for model in due:
            if model.key in self.crowded - lacking:
                self.retries.forget(model.key)
        self.crowded = lacking

    def _reread(self) -> bool:
        """Read models.json again when it is another file than last time; return whether it was."""
        try:
            status = self.models_file.stat()
            seen = (status.st_mtime_ns, status.st_ino, status.st_size)
            if seen == self.seen:
                self.list_trouble = ""
                return False
            wanted = read(self.models_file)
        except (OSError, PullerError) as error:
            # The last good list stands: an unreadable one must never remove a model.
            trouble = str(error)
            changed, self.list_trouble = trouble != self.list_trouble, trouble
            return changed
        self.list_trouble = ""
        # Who edits a model's record wants it tried now.
        self.retries.keep_only(m.key for m in wanted.models if m in self.wanted.models)
        self.wanted, self.seen = wanted, seen
        self.board.keep_only({name for model in wanted.models for name in model.names})
        return True

    async def _rest(self, pause_s: float) -> None:
        """Wait, but not longer than until models.json changes."""
        end = self.world.monotonic() + pause_s
        while (left_s := end - self.world.monotonic()) > 0:
            await self.world.sleep(min(LOOK_S, left_s))
            if self._reread():
                return

    async def _remove_what_left(self, present: dict[str, Present]) -> None:
        wanted = {model.key for model in self.wanted.models}
        for key, record in list(self.ledger.records.items()):
            if key in wanted:
                continue
            if settle.is_ours(record, present.get(key)):
                await ollama.delete(self.client, record.id)
                state.LOG.info("%s: removed: it left %s", record.id, self.models_file)
                present.pop(key, None)
            self.ledger.drop(key)

    async def _settle_all(self, present: dict[str, Present]) -> list[Model]:
        """Note the state of every model; return those that are still to be pulled, in order."""
        memory_bytes = self.world.memory_bytes() + self.wanted.accelerator_bytes
        due = []
        for model in self.wanted.models:
            there, record = present.get(model.key), self.ledger.records.get(model.key)
            verdict = settle.settle(
                model, there, record, memory_bytes, self.world.wall(), self.read_only
            )
            if verdict.remove and there is not None:
                await ollama.delete(self.client, there.id)
                present.pop(model.key)
            if verdict.record is not None:
                self.ledger.put(model.key, verdict.record)
            if verdict.pull:
                due.append(model)
                self._note_due(model)
            else:
                self.have_bytes.pop(model.key, None)
                self.board.put(model.names, verdict.entry)
        return due

    def _note_due(self, model: Model) -> None:
        before = self.board.entries.get(model.names[0])
        have = self._have(model)
        total = max(model.download_bytes, have, before.total_bytes if before else 0)
        entry = Entry(state.WAITING, _percent(have, total), have, total)
        reason = self.retries.reason(model.key)
        if reason:
            at = datetime.fromtimestamp(
                self.world.wall() + self.retries.wait_s(model.key), UTC
            ).isoformat(timespec="seconds")
            entry = replace(entry, state=state.FAILED, reason=reason, retry_at=at)
        self.board.put(model.names, entry)

    def _have(self, model: Model) -> int:
        """Return the bytes of an unfinished download that Ollama will go on from."""
        before = self.board.entries.get(model.names[0])
        unfinished = before is not None and before.state in state.UNFINISHED
        said = before.completed_bytes if before is not None and unfinished else 0
        return self.have_bytes.setdefault(model.key, said)

    async def _pull(self, model: Model, there: Present | None) -> None:
        """Pull one model; its outcome is read off the disk by the next step, as after a kill."""
        have = self._have(model)
        reason = room.lacks_disk(model, have, self.world.free_bytes(), self.world.margin_bytes)
        if reason is None:
            try:
                self.ledger.put(model.key, self._intent(model, there))
                before = self.board.entries[model.names[0]]
                self.board.put(model.names, replace(before, state=state.PULLING, reason=""))
                self.board.write()
                await ollama.pull(self.client, model.id, self._follow(model))
            except PullerError as error:
                reason = str(error)
        further = self.have_bytes[model.key] > have
        self.retries.tried(model.key, reason or "", further=further)

    def _intent(self, model: Model, there: Present | None) -> Record:
        before = there.digest if there else None
        return Record(model.id, "pulling", before=before, wanted=model.digest, at=self.world.wall())

    def _follow(self, model: Model) -> Callable[[Progress], bool]:
        """Return what notes a pull's progress, and stops it when the model is not wanted so."""
        rate = Rate(self.world.monotonic)
        noted = looked = self.world.monotonic()

        def follow(progress: Progress) -> bool:
            nonlocal noted, looked
            now = self.world.monotonic()
            done = progress.completed_bytes
            rate.take(done)
            self.have_bytes[model.key] = max(done, self.have_bytes[model.key])
            if now - noted >= NOTE_EVERY_S or progress.status == "success":
                noted = now
                self._note_pulling(model, progress, rate.per_s())
            if now - looked >= LOOK_S:
                looked = now
                return not self._reread() or model in self.wanted.models
            return True

        return follow

    def _note_pulling(self, model: Model, progress: Progress, bytes_per_s: float) -> None:
        done = progress.completed_bytes
        total = max(progress.total_bytes, model.download_bytes)
        reason = "" if progress.status.startswith("pulling") else progress.status
        if progress.status in {"success", "writing manifest"}:
            reason = ""
        entry = Entry(state.PULLING, _percent(done, total), done, total, round(bytes_per_s, 1))
        for name in model.names:
            self.board.entries[name] = replace(entry, reason=reason)
        self.board.write()

    def _all_waiting(self) -> None:
        for model in self.wanted.models:
            for name in model.names:
                self.board.entries.setdefault(name, Entry(state.WAITING))


def _percent(done: int, total: int) -> int:
    """Return whole percent, 99 at most: 100 is for a model that is there and checked."""
    return min(99, done * 100 // total) if total > 0 else 0
