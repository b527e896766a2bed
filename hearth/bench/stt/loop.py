"""Speech without an end, by file and by socket in turns, and what it does to a server's memory."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence

from hearth.bench import BenchError
from hearth.bench.stt.call import transcribe
from hearth.bench.stt.line import Line, Manner, NoSocketError, line
from hearth.bench.stt.report.figures import Loop
from hearth.bench.stt.spoken import BYTES, RATE, Utterance, joined, utterances
from hearth.bench.stt.target import FAILURES, Target

# Of one request or one socket; together a minute and a half, so an hour has some forty weighings.
_FILE_S = 60
_SOCKET = (1, 3, 10, 3, 10)
_WITHIN_S = 300.0
_QUARTERS = 4
_CHUNK = RATE * BYTES


async def loop(target: Target, seconds: int, progress: Callable[[str], None]) -> Loop:
    """Speak for so many seconds of sound, as fast as the server listens, and weigh it."""
    started, heard_s = time.perf_counter(), 0.0
    samples: list[tuple[float, int]] = []
    errors: list[str] = []
    file = joined(_FILE_S)
    for number in itertools.count():
        if heard_s >= seconds or target.stopped or len(errors) > FAILURES:
            break
        progress(f"memory, {heard_s / 60:.0f} of {seconds / 60:.0f} minutes")
        spoken = [utterances(kind)[number % 2] for kind in _SOCKET]
        try:
            if number % 2 and target.socket:
                await _by_socket(target, spoken)
                heard_s += sum(one.seconds for one in spoken)
            else:
                written = await transcribe(target.client, target.server, file)
                if written.error:
                    raise BenchError(written.error)
                heard_s += written.audio_s
            size = await target.weigh()
        except (NoSocketError, BenchError) as error:
            errors.append(str(error))
            continue
        if size is not None:
            samples.append((round(heard_s, 1), size))
    took_s = round(time.perf_counter() - started, 1)
    return report(heard_s, took_s, samples, errors)


def report(
    heard_s: float, took_s: float, samples: Sequence[tuple[float, int]], errors: Sequence[str]
) -> Loop:
    """Return what the memory did: the first quarter finds what it needs, the rest must not."""
    sizes = [size for _, size in samples]
    quarter, growth = len(sizes) // _QUARTERS, None
    if quarter:
        before, after = sizes[quarter : 2 * quarter], sizes[-quarter:]
        growth = round(statistics.median(after) - statistics.median(before))
    return Loop(
        audio_s=round(heard_s, 1),
        seconds=took_s,
        growth_bytes=growth,
        most_bytes=max(sizes, default=None),
        samples=tuple(samples),
        failed=len(errors),
        errors=tuple(dict.fromkeys(errors)),
    )


async def _by_socket(target: Target, spoken: Sequence[Utterance]) -> None:
    """Say some utterances on one socket as fast as it takes them; each ends by a flush."""
    async with line(target.server, Manner(), _WITHIN_S) as opened:
        for one in spoken:
            finals = _finals(opened)
            for at in range(0, len(one.pcm), _CHUNK):
                await opened.send(one.pcm[at : at + _CHUNK])
            await opened.order("flush")
            await _until_final(opened, finals)
        await opened.end()
    if opened.error:
        raise BenchError(opened.error)


async def _until_final(opened: Line, before: int) -> None:
    while _finals(opened) <= before and not opened.done.is_set():
        opened.news.clear()
        await opened.news.wait()


def _finals(opened: Line) -> int:
    return sum(1 for event in opened.events if event.kind == "final")
