"""The jobs on disk: a folder for each, with its text, the sound so far, and the finished file.

The sound is appended, and then the progress is replaced. So after a crash the sound may be longer
than the progress says, but never shorter, and is cut to it.
"""

import json
import logging
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from hearth_kokoro.engines import SAMPLE_RATE
from hearth_serving.errors import ServiceError

log = logging.getLogger(__name__)

MAX_JOBS = 16
"""How many jobs are kept, finished or not."""
MAX_BYTES = 4 * 1024**3
"""How many bytes all jobs may take."""
KEEP_S = 7 * 24 * 3600.0
"""How long a finished job is kept."""
_SAMPLE_BYTES = 2
# Slow voices speak 10 characters a second; at the end the file is beside the sound.
_BYTES_PER_CHARACTER = 2 * _SAMPLE_BYTES * SAMPLE_RATE // 10
# The disk is slow: the sound of many short segments is written at once.
_SAVE_S = 2.0
_SPARE_BYTES = 512 * 1024**2
_ID = re.compile(r"[A-Za-z0-9_-]{22}")

State = Literal["waiting", "done", "failed"]


@dataclass(slots=True)
class Job:
    """One text that becomes a file, and how far it is."""

    id: str
    voice: str
    speed: float
    format: str
    characters: int
    created: float
    """Unix time."""
    state: State = "waiting"
    characters_done: int = 0
    samples: int = 0
    finished: float = 0.0
    error: str = ""

    @property
    def audio_s(self) -> float:
        """Seconds of sound that are made."""
        return self.samples / SAMPLE_RATE


class JobStore:
    """All jobs; one thread at a time may use it."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        """Read the jobs of `folder`; what cannot be read is removed."""
        self._folder, self._now = folder, now
        self._jobs: dict[str, Job] = {}
        self._saved_at = 0.0
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for one in folder.iterdir():
            try:
                job = Job(**json.loads((one / "job.json").read_text("utf-8")))
                if job.state == "waiting":
                    self._cut(job)
                self._jobs[job.id] = job
            except (OSError, ValueError, TypeError) as error:
                log.warning("a job was removed: %s", type(error).__name__)
                shutil.rmtree(one, ignore_errors=True)

    def create(self, text: str, voice: str, speed: float, format: str) -> Job:
        """Keep a text as a new job; raises ServiceError 429 or 507 where there is no room."""
        need = round(len(text) * _BYTES_PER_CHARACTER / speed)
        self._make_room(need)
        job = Job(secrets.token_urlsafe(16), voice, speed, format, len(text), self._now())
        folder = self._folder / job.id
        folder.mkdir(mode=0o700)
        (folder / "text.txt").write_text(text, "utf-8", newline="")
        self.sound(job).touch()
        self._save(job)
        self._jobs[job.id] = job
        return job

    def get(self, id: str) -> Job:
        """Return a job; raises ServiceError 404 if there is none."""
        job = self._jobs.get(id) if _ID.fullmatch(id) else None
        if job is None:
            raise ServiceError("there is no such job", status=404, code="job_not_found")
        return job

    def next(self) -> Job | None:
        """Return the oldest job that waits for work."""
        waiting = [job for job in self._jobs.values() if job.state == "waiting"]
        return min(waiting, key=lambda job: job.created, default=None)

    def delete(self, job: Job) -> None:
        """Remove a job and its files."""
        self._jobs.pop(job.id, None)
        shutil.rmtree(self._folder / job.id, ignore_errors=True)

    def rest(self, job: Job) -> str:
        """Return the text that is not spoken yet."""
        with (self._folder / job.id / "text.txt").open(encoding="utf-8", newline="") as file:
            return file.read()[job.characters_done :]

    def sound(self, job: Job) -> Path:
        """Return the file of the sound so far: 16-bit samples."""
        return self._folder / job.id / "sound.pcm"

    def file(self, job: Job) -> Path:
        """Return the finished file."""
        return self._folder / job.id / f"speech.{job.format}"

    def append(self, job: Job, data: bytes, characters: int) -> None:
        """Keep the sound of the next characters; a crash loses a few seconds of work at most."""
        with self.sound(job).open("ab") as file:
            file.write(data)
        job.samples += len(data) // _SAMPLE_BYTES
        job.characters_done += characters
        if time.monotonic() - self._saved_at > _SAVE_S:
            self.save(job)

    def save(self, job: Job) -> None:
        """Write the sound and the progress to the disk."""
        with self.sound(job).open("ab") as file:
            os.fsync(file.fileno())
        self._save(job)
        self._saved_at = time.monotonic()

    def finish(self, job: Job) -> None:
        """Keep only the finished file; the text is removed."""
        job.state, job.finished = "done", self._now()
        self._end(job)

    def fail(self, job: Job, error: str) -> None:
        """Keep only the reason."""
        job.state, job.finished, job.error = "failed", self._now(), error
        self._end(job)

    def _end(self, job: Job) -> None:
        self._save(job)
        for path in (self._folder / job.id / "text.txt", self.sound(job)):
            path.unlink(missing_ok=True)

    def _save(self, job: Job) -> None:
        folder = self._folder / job.id
        new = folder / "job.new"
        with new.open("w", encoding="utf-8") as file:
            json.dump(asdict(job), file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(folder / "job.json")

    def _cut(self, job: Job) -> None:
        """Remove the sound that came after the last saved progress."""
        size = job.samples * _SAMPLE_BYTES
        if self.sound(job).stat().st_size < size:
            raise ValueError("sound is missing")
        os.truncate(self.sound(job), size)

    def _make_room(self, need: int) -> None:
        """Remove finished jobs that are old, or the oldest where their room is needed."""
        ended = sorted(
            (job for job in self._jobs.values() if job.state != "waiting"),
            key=lambda job: job.finished,
        )
        for job in ended:
            is_old = self._now() - job.finished > KEEP_S
            if is_old or len(self._jobs) >= MAX_JOBS or self._free() < need:
                self.delete(job)
        if len(self._jobs) >= MAX_JOBS:
            message = f"{len(self._jobs)} long texts are waiting already; try again later"
            raise ServiceError(message, status=429, code="too_many_jobs", retry_after_s=120)
        if self._free() < need:
            message = f"there is no room for {need / 1e9:.1f} GB of sound; send a shorter text"
            raise ServiceError(message, status=507, code="no_room")

    def _free(self) -> float:
        """Return the bytes that a new job may take."""
        waiting = (job for job in self._jobs.values() if job.state == "waiting")
        promised = sum(job.characters * _BYTES_PER_CHARACTER / job.speed for job in waiting)
        files = (self.file(job) for job in self._jobs.values() if job.state == "done")
        used = promised + sum(file.stat().st_size for file in files if file.exists())
        return min(MAX_BYTES - used, shutil.disk_usage(self._folder).free - _SPARE_BYTES)
