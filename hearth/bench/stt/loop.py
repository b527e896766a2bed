"""Speech without an end, by file and by socket in turns, and what it does to a server's memory."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hearth.bench.served.watched import FAILURES
from hearth.bench.stt.call import transcribe
from hearth.bench.stt.report.figures import Loop
from hearth.bench.stt.target import Target
from hearth.clients import ClientError
from hearth.clients.recordings import BYTES, RATE, Utterance, concatenated, utterances
from hearth.clients.stt import NoStreamError, Stream, StreamOptions, connected

# Of one request or one socket; together a minute and a half, so an hour has some forty weighings.
_FILE_S = 60
_SOCKET = (1, 3, 10, 3, 10)
_WITHIN_S = 300.0
_QUARTERS = 4
_CHUNK = RATE * BYTES


@dataclass(slots=True)
class Loud:
    """What was said and weighed so far, of so many seconds of sound that were asked for."""

    asked_s: int
    heard_s: float = 0.0
    samples: list[tuple[float, int]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Say whether all was said, or too much failed."""
        return self.heard_s >= self.asked_s or len(self.errors) > FAILURES


async def loop(target: Target, seconds: int, progress: Callable[[str], None]) -> None:
    """Speak for so many seconds of sound, as fast as the server listens, and weigh it.

    What was measured is the target's `loop`, also when this is ended early.
    """
    started, so_far = time.perf_counter(), Loud(seconds)
    file = concatenated(_FILE_S)
    try:
        for number in itertools.count():
            if so_far.over or target.stopped:
                break
            progress(f"memory, {so_far.heard_s / 60:.0f} of {seconds / 60:.0f} minutes")
            try:
                so_far.heard_s += await _turn(target, number, file)
                size = await target.weigh()
            except (NoStreamError, ClientError) as error:
                so_far.errors.append(str(error))
                continue
            if size is not None:
                so_far.samples.append((round(so_far.heard_s, 1), size))
    finally:
        target.loop = report(so_far, round(time.perf_counter() - started, 1))


async def _turn(target: Target, number: int, file: bytes) -> float:
    """Speak once, by file or by socket, and return the seconds of it."""
    if number % 2 and target.socket:
        spoken = [utterances(kind)[number // 2 % 2] for kind in _SOCKET]
        await _by_socket(target, spoken)
        return sum(one.seconds for one in spoken)
    written = await transcribe(target.client, target.server, file)
    if written.error:
        raise ClientError(written.error)
    return written.audio_s


def report(so_far: Loud, took_s: float) -> Loop:
    """Return what the memory did: the first quarter finds what it needs, the rest must not."""
    sizes = [size for _, size in so_far.samples]
    quarter, growth = len(sizes) // _QUARTERS, None
    if quarter:
        before, after = sizes[quarter : 2 * quarter], sizes[-quarter:]
        growth = round(statistics.median(after) - statistics.median(before))
    return Loop(
        asked_s=so_far.asked_s,
        audio_s=round(so_far.heard_s, 1),
        seconds=took_s,
        growth_bytes=growth,
        most_bytes=max(sizes, default=None),
        samples=tuple(so_far.samples),
        failed=len(so_far.errors),
        errors=tuple(dict.fromkeys(so_far.errors)),
    )


async def _by_socket(target: Target, spoken: Sequence[Utterance]) -> None:
    """Say some utterances on one socket as fast as it takes them; each ends by a flush."""
    async with connected(target.server, StreamOptions(), _WITHIN_S) as opened:
        for one in spoken:
            finals = _finals(opened)
            for at in range(0, len(one.pcm), _CHUNK):
                await opened.send(one.pcm[at : at + _CHUNK])
            await opened.command("flush")
            await _until_final(opened, finals)
        await opened.end()
    if opened.error:
        raise ClientError(opened.error)


async def _until_final(opened: Stream, before: int) -> None:
    while _finals(opened) <= before and not opened.done.is_set():
        opened.news.clear()
        await opened.news.wait()


def _finals(opened: Stream) -> int:
    return sum(1 for event in opened.events if event.kind == "final")
