"""The main loop: compare the disk with the model list, and pull what is missing, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import httpx

from hearth_model_puller import PullerError, decisions, ollama, state
from hearth_model_puller.environment import Environment, disk_problem
from hearth_model_puller.model_list import Model, ModelList, read_model_list
from hearth_model_puller.ollama import DownloadRate, InstalledModel, PullProgress
from hearth_model_puller.retries import Retries
from hearth_model_puller.state import ModelStatus, ProgressFile, PullRecord, PullRecords

POLL_S = 2.0
DISK_POLL_S = 10.0
HEARTBEAT_S = 60.0
REPORT_EVERY_S = 1.0


@dataclass(slots=True)
class Puller:
    """Keeps one Ollama's models as in models.json. `run` never returns; cancel it to stop."""

    client: httpx.AsyncClient
    models_file: Path
    progress: ProgressFile
    records: PullRecords
    environment: Environment
    read_only: bool = False
    retries: Retries = field(init=False)
    wanted: ModelList = field(default_factory=ModelList)
    partial_bytes: dict[str, int] = field(default_factory=dict)
    file_version: tuple[int, int, int] | None = None
    list_error: str = ""
    without_space: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Create the retries, which need the clock."""
        self.retries = Retries(self.environment.monotonic, self.environment.jitter)

    async def run(self) -> None:
        """Work for ever. When cancelled, record that in progress.json."""
        try:
            while True:
                self._reload()
                pause_s = await self.step()
                self.progress.write()
                await self._sleep(pause_s)
        finally:
            for name, status in self.progress.models.items():
                if status.state == state.PULLING:
                    stopped = replace(status, state=state.WAITING, reason="the puller was stopped")
                    self.progress.models[name] = replace(stopped, bytes_per_s=0.0)
            self.progress.write()

    async def step(self) -> float:
        """Do what can be done now; return how many seconds to wait before the next step."""
        # Before the first valid list there are no wanted models, and nothing must be removed.
        if self.file_version is None:
            self.progress.set_note(self.list_error)
            return HEARTBEAT_S
        try:
            installed = await ollama.list_models(self.client)
            if not self.read_only:
                await self._remove_unlisted(installed)
            due = await self._update_all(installed)
        except PullerError as error:
            self._set_all_waiting()
            self.progress.set_note(str(error))
            return POLL_S
        self.progress.set_note(self.list_error)
        self._check_disk_space(due)
        waits_s = [self.retries.wait_s(model.key) for model in due]
        if 0.0 in waits_s:
            model = due[waits_s.index(0.0)]
            await self._pull(model, installed.get(model.key))
            return 0.0
        return min([DISK_POLL_S if self.without_space else HEARTBEAT_S, *waits_s])

    def _check_disk_space(self, due: list[Model]) -> None:
        """Retry models that did not fit on the disk as soon as they do, without more delay."""
        free = self.environment.free_bytes()
        margin_bytes = self.environment.margin_bytes
        without_space = {
            model.key
            for model in due
            if disk_problem(model, self._partial(model), free, margin_bytes)
        }
        for model in due:
            if model.key in self.without_space - without_space:
                self.retries.forget(model.key)
        self.without_space = without_space

    def _reload(self) -> bool:
        """Read models.json if it has changed; return whether the list or its error changed."""
        try:
            status = self.models_file.stat()
            version = (status.st_mtime_ns, status.st_ino, status.st_size)
            if version == self.file_version:
                self.list_error = ""
                return False
            wanted = read_model_list(self.models_file)
        except (OSError, PullerError) as error:
            # The last valid list applies: an unreadable one must never remove a model.
            message = str(error)
            changed, self.list_error = message != self.list_error, message
            return changed
        self.list_error = ""
        # A model whose record was edited is retried at once.
        self.retries.keep_only(m.key for m in wanted.models if m in self.wanted.models)
        self.wanted, self.file_version = wanted, version
        self.progress.keep_only({name for model in wanted.models for name in model.names})
        return True

    async def _sleep(self, pause_s: float) -> None:
        """Sleep until the time is over or models.json changes."""
        end = self.environment.monotonic() + pause_s
        while (left_s := end - self.environment.monotonic()) > 0:
            await self.environment.sleep(min(POLL_S, left_s))
            if self._reload():
                return

    async def _remove_unlisted(self, installed: dict[str, InstalledModel]) -> None:
        wanted = {model.key for model in self.wanted.models}
        for key, record in list(self.records.by_key.items()):
            if key in wanted:
                continue
            if decisions.is_ours(record, installed.get(key)):
                await ollama.delete(self.client, record.id)
                state.LOG.info("%s: removed: not in %s any more", record.id, self.models_file)
                installed.pop(key, None)
            self.records.drop(key)

    async def _update_all(self, installed: dict[str, InstalledModel]) -> list[Model]:
        """Update the status of every model; return those that have to be pulled, in order."""
        memory_bytes = self.environment.memory_bytes() + self.wanted.accelerator_bytes
        due = []
        for model in self.wanted.models:
            found, record = installed.get(model.key), self.records.by_key.get(model.key)
            decision = decisions.decide(
                model, found, record, memory_bytes, self.environment.wall(), self.read_only
            )
            if decision.remove and found is not None:
                await ollama.delete(self.client, found.id)
                installed.pop(model.key)
            if decision.record is not None:
                self.records.put(model.key, decision.record)
            if decision.pull:
                due.append(model)
                self._set_due(model)
            else:
                self.partial_bytes.pop(model.key, None)
                self.progress.put(model.names, decision.status)
        return due

    def _set_due(self, model: Model) -> None:
        before = self.progress.models.get(model.names[0])
        partial = self._partial(model)
        total = max(model.download_bytes, partial, before.total_bytes if before else 0)
        since = before.failing_since if before else None
        status = ModelStatus(
            state.WAITING, _percent(partial, total), partial, total, failing_since=since
        )
        reason = self.retries.reason(model.key)
        if reason:
            at = datetime.fromtimestamp(
                self.environment.wall() + self.retries.wait_s(model.key), UTC
            ).isoformat(timespec="seconds")
            now = datetime.fromtimestamp(self.environment.wall(), UTC).isoformat(timespec="seconds")
            status = replace(
                status, state=state.FAILED, reason=reason, retry_at=at, failing_since=since or now
            )
        self.progress.put(model.names, status)

    def _partial(self, model: Model) -> int:
        """Return the bytes of an unfinished download, from which Ollama resumes."""
        before = self.progress.models.get(model.names[0])
        unfinished = before is not None and before.state in state.UNFINISHED
        completed = before.completed_bytes if before is not None and unfinished else 0
        return self.partial_bytes.setdefault(model.key, completed)

    async def _pull(self, model: Model, found: InstalledModel | None) -> None:
        """Pull one model; the next step reads the result from the disk, as after a kill."""
        partial = self._partial(model)
        reason = disk_problem(
            model, partial, self.environment.free_bytes(), self.environment.margin_bytes
        )
        if reason is None:
            try:
                self.records.put(model.key, self._record_of_start(model, found))
                before = self.progress.models[model.names[0]]
                self.progress.put(model.names, replace(before, state=state.PULLING, reason=""))
                self.progress.write()
                await ollama.pull(self.client, model.id, self._progress_callback(model))
            except PullerError as error:
                reason = str(error)
        advanced = self.partial_bytes[model.key] > partial
        if advanced:
            # The list may have changed meanwhile.
            for name in self.progress.models.keys() & {*model.names}:
                status = self.progress.models[name]
                self.progress.models[name] = replace(status, failing_since=None)
        self.retries.record_try(model.key, reason or "", advanced=advanced)

    def _record_of_start(self, model: Model, found: InstalledModel | None) -> PullRecord:
        before, now = found.digest if found else None, self.environment.wall()
        return PullRecord(model.id, "pulling", before=before, wanted=model.digest, at=now)

    def _progress_callback(self, model: Model) -> Callable[[PullProgress], bool]:
        """Return a callback that reports progress, and stops the pull if the list has changed."""
        rate = DownloadRate(self.environment.monotonic)
        reported = polled = self.environment.monotonic()

        def on_progress(progress: PullProgress) -> bool:
            nonlocal reported, polled
            now = self.environment.monotonic()
            done = progress.completed_bytes
            rate.add(done)
            self.partial_bytes[model.key] = max(done, self.partial_bytes[model.key])
            if now - reported >= REPORT_EVERY_S or progress.status == "success":
                reported = now
                self._report(model, progress, rate.bytes_per_s())
            if now - polled >= POLL_S:
                polled = now
                return not self._reload() or model in self.wanted.models
            return True

        return on_progress

    def _report(self, model: Model, progress: PullProgress, bytes_per_s: float) -> None:
        done = progress.completed_bytes
        total = max(progress.total_bytes, model.download_bytes)
        reason = "" if progress.status.startswith("pulling") else progress.status
        if progress.status in {"success", "writing manifest"}:
            reason = ""
        percent = _percent(done, total)
        before = self.progress.models.get(model.names[0])
        since = before.failing_since if before else None
        status = ModelStatus(
            state.PULLING, percent, done, total, round(bytes_per_s, 1), failing_since=since
        )
        for name in model.names:
            self.progress.models[name] = replace(status, reason=reason)
        self.progress.write()

    def _set_all_waiting(self) -> None:
        for model in self.wanted.models:
            for name in model.names:
                self.progress.models.setdefault(name, ModelStatus(state.WAITING))


def _percent(done: int, total: int) -> int:
    """Return whole percent, at most 99: 100 means that the model is installed and verified."""
    return min(99, done * 100 // total) if total > 0 else 0
