"""Makes the files of long texts, one after the other, while nobody speaks."""

import asyncio
import logging
import shutil
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np

from hearth_kokoro.engines import SAMPLE_RATE
from hearth_kokoro.jobs.store import Job, JobStore
from hearth_kokoro.synthesis.playback import Playback
from hearth_kokoro.synthesis.synthesizer import Synthesizer
from hearth_kokoro.synthesis.text_buffer import TextBuffer
from hearth_kokoro.voices import Voices
from hearth_kokoro.web.encoders import open_file_encoder, to_pcm, wav_header
from hearth_serving.errors import BROKEN, ServiceError, log_unexpected, outcome_of

log = logging.getLogger("hearth_kokoro")

# Half a minute of sound is encoded in a fraction of a second.
_BLOCK_BYTES = 30 * SAMPLE_RATE * 2
_PAUSE_S = 0.25
# So many failures at the same place.
_MAX_FAILURES = 3

P = ParamSpec("P")


class JobRunner:
    """Works on the jobs of a store; belongs to one event loop."""

    def __init__(self, store: JobStore, synthesizer: Synthesizer, voices: Voices) -> None:
        self.store = store
        self._synthesizer, self._voices = synthesizer, voices
        self._added = asyncio.Event()
        self._current: Job | None = None
        self._work: asyncio.Task[None] | None = None
        self._loop = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop; the next start goes on after the last chunk."""
        self._loop.cancel()
        await asyncio.gather(self._loop, return_exceptions=True)

    def create(self, text: str, voice: str, speed: float, format: str) -> Job:
        """Keep a text as a new job."""
        job = self.store.create(text, voice, speed, format)
        self._added.set()
        return job

    async def delete(self, job: Job) -> None:
        """Stop a job and remove it."""
        if job is self._current and self._work:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        self.store.delete(job)

    def describe(self, job: Job) -> dict[str, Any]:
        """Return a job as the interface shows it."""
        left = job.characters - job.characters_done
        state: str = job.state
        if state == "waiting":
            state = "queued" if job is not self._current else "speaking" if left else "encoding"
        rate_s = self._synthesizer.cost_s(self._voices.get(job.voice).language, job.speed, left)
        return {
            "id": job.id,
            "object": "audio.job",
            "status": state,
            "voice": job.voice,
            "response_format": job.format,
            "characters": job.characters,
            "characters_done": job.characters_done,
            "audio_s": round(job.audio_s, 1),
            "eta_s": round(rate_s) if job.state == "waiting" else None,
            "bytes": self.store.file(job).stat().st_size if job.state == "done" else None,
            "error": job.error or None,
        }

    async def _run(self) -> None:
        while True:
            self._added.clear()
            self._current = self.store.next()
            if self._current is None:
                await self._added.wait()
                continue
            self._work = asyncio.create_task(self._make(self._current))
            try:
                await asyncio.wait({self._work})
            finally:
                self._work.cancel()
                await asyncio.gather(self._work, return_exceptions=True)

    async def _make(self, job: Job) -> None:
        outcome = "left"
        try:
            await self._speak_all(job)
            await self._encode(job)
            await _in_thread(self.store.finish, job)
            outcome = "done"
        except Exception as caught:
            error = caught if isinstance(caught, ServiceError) else log_unexpected(caught)
            outcome = outcome_of(error)
            # An engine's words may quote a text: they are for the log alone.
            self.store.fail(job, BROKEN if error.status == 500 else str(error))
        finally:
            log.info("job %s characters=%d format=%s", outcome, job.characters, job.format)

    async def _speak_all(self, job: Job) -> None:
        """Go on after a failure: hours of work must not be lost by one."""
        failures = 0
        while job.characters_done < job.characters:
            before = job.characters_done
            error: Exception = ServiceError("the text was not spoken to its end", status=500)
            try:
                await self._speak(job)
            except Exception as caught:
                error = caught
            # A speech that ends too soon must not be repeated for ever either.
            failures = 1 if job.characters_done > before else failures + 1
            if failures == _MAX_FAILURES:
                raise error
            if job.characters_done < job.characters:
                await asyncio.sleep(_PAUSE_S)

    async def _speak(self, job: Job) -> None:
        voice = self._voices.get(job.voice)
        buffer = TextBuffer.of(self.store.rest(job), voice.language)
        playback = Playback(starts_when_complete=True, is_background=True)
        speech = self._synthesizer.speak(buffer, voice, job.speed, playback)
        try:
            async with aclosing(speech) as segments:
                async for segment in segments:
                    data = to_pcm(segment.samples).tobytes()
                    await _in_thread(self.store.append, job, data, len(segment.text))
        finally:
            self.store.save(job)

    async def _encode(self, job: Job) -> None:
        """Write the file from the sound; after a restart it is written again."""
        sound, target = self.store.sound(job), self.store.file(job)
        part = target.with_name("part")
        if job.format == "pcm":
            await _in_thread(shutil.copyfile, sound, part)
        elif job.format == "wav":
            await _in_thread(_write_wav, sound, part)
        else:
            await self._encode_blocks(job.format, sound, part)
        part.replace(target)

    async def _encode_blocks(self, format: str, sound: Path, target: Path) -> None:
        with sound.open("rb") as source, target.open("wb") as file:
            encoder = open_file_encoder(format, file)
            while data := source.read(_BLOCK_BYTES):
                # Sessions end in many ways, and none of them signals this.
                while self._synthesizer.is_busy:  # noqa: ASYNC110
                    await asyncio.sleep(_PAUSE_S)
                samples = np.frombuffer(data, "<i2").astype(np.float32) / np.float32(32767)
                await _in_thread(encoder.encode, samples)
            await _in_thread(encoder.finish)


async def _in_thread(function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Run a function that blocks; a cancelled caller waits for its end."""
    task = asyncio.create_task(asyncio.to_thread(function, *args, **kwargs))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def _write_wav(sound: Path, target: Path) -> None:
    with sound.open("rb") as source, target.open("wb") as file:
        file.write(wav_header(sound.stat().st_size))
        shutil.copyfileobj(source, file, 1024 * 1024)
