"""Which model and how many threads: the first that is fast enough here and fits, and why."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import ctranslate2
import numpy as np

from hearth_serving.errors import ServiceError
from hearth_serving.machine import Machine
from hearth_serving.measurements import Measurement, MeasurementCache, best_threads
from hearth_whisper.recognising import Recogniser
from hearth_whisper.recognising.loading import COMPUTE, check
from hearth_whisper.recognising.memory import free_bytes, give_back, needed_bytes

log = logging.getLogger(__name__)

FAST_ENOUGH = 0.5
"""Seconds of work for a second of sound: twice as fast as somebody speaks."""
WINDOW_S = 30
TOKENS = 100
"""What somebody says in a window, in tokens."""
_ROUNDS = 3

Load = Callable[[Path, str, int, int], Recogniser]
"""Loads a folder on a device with so many threads for so many workers."""
Time = Callable[[Recogniser], float]
"""Returns a loaded model's seconds of work for a second of sound."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line says."""

    models: tuple[Path, ...]
    """In order of preference; several are `auto`."""
    draft: Path | None = None
    """The model of partials; None is a second copy of the chosen one."""
    partials: bool = True
    device: str = "auto"
    state: Path | None = None
    """Where what was measured is kept for the next start."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A model's folder, how it runs, and why it is this one."""

    folder: Path
    device: str
    threads: int
    reason: str
    rtf: float | None


def choose(
    asked: Wanted,
    device: str,
    load: Load,
    time: Time,
    machine: Machine,
    free: int | None = None,
) -> Choice:
    """Return the first model that is fast enough and fits, else the fastest; raises ServiceError.

    What is measured is kept in `asked.state`, and not measured again for the same files on the
    same machine. The first model's threads serve for all.
    """
    fitting, left_out = _fitting(asked, device, free_bytes() if free is None else free)
    if not fitting:
        raise ServiceError("; ".join(left_out), status=503)
    memory = MeasurementCache(asked.state)
    key = _key(fitting, device, machine, memory)
    known = list(memory.load(key))
    before = len(known)
    tries = _Tries(device, load, time, machine, known)
    threads = tries.threads(fitting[0])
    measured: list[tuple[Path, float]] = []
    for folder in fitting:
        rtf = tries.rtf(folder, threads)
        if rtf is None:
            left_out.append(f"{folder.name} cannot be loaded")
            continue
        measured.append((folder, rtf))
        if rtf <= FAST_ENOUGH:
            break
    if len(known) > before:
        memory.store(key, known)
    return _best(measured, left_out, device, threads, tries.failure)


class _Tries:
    """Measures, unless it is known already; one model at a time is in memory."""

    def __init__(
        self, device: str, load: Load, time: Time, machine: Machine, known: list[Measurement]
    ) -> None:
        self._device, self._load, self._time = device, load, time
        self._machine, self._known = machine, known
        self.failure: ServiceError | None = None

    def threads(self, folder: Path) -> int:
        """Return the number of threads with which this model is fastest."""
        if self._device != "cpu":
            return self._machine.cores
        numbers = self._machine.candidates()
        for threads in numbers if len(numbers) > 1 else ():
            self.rtf(folder, threads)
        rows = [one for one in self._known if one.model == str(folder) and one.threads in numbers]
        return best_threads(rows, self._machine.cores).threads if rows else self._machine.cores

    def rtf(self, folder: Path, threads: int) -> float | None:
        """Return what a second of sound costs; None, said in the log, if it cannot be loaded."""
        for one in self._known:
            if (one.model, one.threads) == (str(folder), threads):
                return one.rtf
        try:
            rtf = round(self._time(self._load(folder, self._device, threads, 1)), 4)
        except ServiceError as error:
            log.warning("%s is left out: %s", folder.name, error)
            self.failure = error
            return None
        finally:
            give_back()
        log.info(
            "measured %s with %d threads: %.3f s per second of audio", folder.name, threads, rtf
        )
        self._known.append(Measurement(model=str(folder), threads=threads, rtf=rtf))
        return rtf


def _fitting(asked: Wanted, device: str, free: int) -> tuple[list[Path], list[str]]:
    """Return the models that are whole and fit into memory, and a line for each other one."""
    fitting, left_out = [], []
    for folder in asked.models:
        try:
            check(folder)
        except ServiceError as error:
            if len(asked.models) > 1:
                log.warning("%s", error)
            left_out.append(str(error))
            continue
        needed = _needed(folder, asked) if device == "cpu" else 0
        if needed <= free:
            fitting.append(folder)
            continue
        wants, has = needed / 2**20, free / 2**20
        said = f"{folder.name} needs {wants:.0f} MiB of memory, {has:.0f} MiB are free"
        if len(asked.models) > 1:
            left_out.append(said)
        else:
            # There is no other to take. Who finds a server that is killed as it loads finds this.
            log.warning("%s: give it more memory, or use a smaller model", said)
            fitting.append(folder)
    return fitting, left_out


def _needed(folder: Path, asked: Wanted) -> int:
    """Return what a model takes with its draft, in bytes."""
    if not asked.partials:
        return needed_bytes(folder, 1)
    if asked.draft is None:
        return needed_bytes(folder, 2)
    whole = (asked.draft / "model.bin").is_file()
    return needed_bytes(folder, 1) + (needed_bytes(asked.draft, 1) if whole else 0)


def _best(
    measured: Sequence[tuple[Path, float]],
    left_out: Sequence[str],
    device: str,
    threads: int,
    failure: ServiceError | None,
) -> Choice:
    """Return the last one measured if it is fast enough, else the fastest, and why."""
    if not measured:
        raise failure or ServiceError("; ".join(left_out), status=503)
    folder, rtf = measured[-1]
    rows = ", ".join(f"{path.name} {cost:.3f}" for path, cost in measured)
    also = "".join(f"; {one}" for one in left_out)
    if rtf <= FAST_ENOUGH:
        why = f"the first that needs at most {FAST_ENOUGH:g} s per second of audio ({rows}){also}"
    else:
        folder, rtf = min(measured, key=lambda one: one[1])
        why = f"the fastest, but none needs at most {FAST_ENOUGH:g} s per second ({rows}){also}"
    return Choice(folder, device, threads, why, rtf)


def _key(
    folders: Sequence[Path], device: str, machine: Machine, memory: MeasurementCache
) -> Mapping[str, Any]:
    """Return what must be the same for a measurement to hold."""
    files = [[str(folder), memory.sha256(folder / "model.bin")] for folder in folders]
    runtime = [ctranslate2.__version__, device, COMPUTE[device]]
    return {**asdict(machine), "runtime": runtime, "models": files}


def rtf_of(model: Recogniser) -> float:
    """Return the best of three: encode a window of noise, and say a usual number of tokens."""
    noise = np.random.default_rng(1).standard_normal(WINDOW_S * 16_000).astype(np.float32)
    best = float("inf")
    for _ in range(_ROUNDS):
        began = perf_counter()
        model.speak(noise * np.float32(0.1), TOKENS)
        best = min(best, perf_counter() - began)
    return best / WINDOW_S
