"""Model selection: the first model that fits and is fast enough on this machine."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import ctranslate2
import numpy as np

from hearth_serving.errors import ServiceError
from hearth_serving.machine import Machine, this_machine
from hearth_serving.measurements import Measurement, MeasurementCache, best_threads
from hearth_whisper.recognition import Recogniser
from hearth_whisper.recognition.loading import COMPUTE_TYPES, check_folder, resolve_device
from hearth_whisper.recognition.model import LoadedModel
from hearth_whisper.recognition.resources import (
    free_bytes,
    needed_bytes,
    release_memory,
    run_in_idle_threads,
)
from hearth_whisper.recognition.whisper import WhisperRecogniser

log = logging.getLogger(__name__)

UTTERANCE_S = 3
TOKENS = 20
"""The tokens of an utterance of `UTTERANCE_S`; English has fewer, most other languages more."""
MAX_S = 1.1
"""The longest time for an utterance that is fast enough.

Recognition starts 0.2 s after the last word, and the rest takes less than 0.2 s, so the text is
there within 1.5 s.
"""
_WINDOW_S = 30
_ROUNDS = 3
# The first measurement is made while the whole house starts. A model that was less than this many
# times too slow then is measured again at the next start.
_NEARLY = 2

LoadFunction = Callable[[Path, str, int, int], Recogniser]
"""Loads a folder on a device with so many threads and workers."""
MeasureFunction = Callable[[Recogniser], float]
"""Returns a loaded model's seconds of work for an utterance."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The options of the command line that concern the model."""

    models: tuple[Path, ...]
    """In order of preference."""
    draft: Path | None = None
    """The model for partial results; None is a second copy of the selected one."""
    partials: bool = True
    device: str = "auto"
    state: Path | None = None
    """The folder that stores measurements for the next start."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected model's folder, how it runs, and the reason for the selection."""

    folder: Path
    device: str
    threads: int
    reason: str
    utterance_s: float
    """The measured seconds of work for an utterance."""


def select_model(
    settings: ModelSettings,
    device: str,
    load: LoadFunction,
    measure: MeasureFunction,
    machine: Machine,
    free: int | None = None,
) -> Selection:
    """Return the first model that fits and is fast enough, else the fastest.

    Measurements are stored in `settings.state` and reused for the same files on the same machine.
    The first model's number of threads is used for all. Raises ServiceError.
    """
    fitting, rejected = _fitting(settings, device, free_bytes() if free is None else free)
    if not fitting:
        raise ServiceError("; ".join(rejected), status=503)
    cache = MeasurementCache(settings.state)
    key = _cache_key(fitting, device, machine, cache)
    known = list(cache.load(key))
    measurements = _Measurements(device, load, measure, machine, known)
    threads = measurements.best_threads(fitting[0])
    measured: list[tuple[Path, float]] = []
    for folder in fitting:
        seconds = measurements.seconds(folder, threads)
        if seconds is None:
            rejected.append(f"{folder.name} cannot be loaded")
            continue
        measured.append((folder, seconds))
        if seconds <= MAX_S:
            break
    if measurements.fresh:
        cache.store(key, known)
    return _selection(measured, rejected, device, threads, measurements.failure)


class _Measurements:
    """Measures what is not known yet or nearly fast enough, one model at a time in memory."""

    def __init__(
        self,
        device: str,
        load: LoadFunction,
        measure: MeasureFunction,
        machine: Machine,
        known: list[Measurement],
    ) -> None:
        self._device, self._load, self._measure = device, load, measure
        self._machine, self._known = machine, known
        self.failure: ServiceError | None = None
        self.fresh: list[Measurement] = []
        """Those of this start."""

    def best_threads(self, folder: Path) -> int:
        """Return the number of threads with which this model is fastest."""
        if self._device != "cpu":
            return self._machine.cores
        candidates = self._machine.candidates()
        for threads in candidates if len(candidates) > 1 else ():
            self.seconds(folder, threads)
        rows = [m for m in self._known if m.model == str(folder) and m.threads in candidates]
        return best_threads(rows, self._machine.cores).threads if rows else self._machine.cores

    def seconds(self, folder: Path, threads: int) -> float | None:
        """Return the time for an utterance; None, and a log entry, if it cannot be loaded."""
        before = None
        for one in self._known:
            if (one.model, one.threads) == (str(folder), threads):
                before = one
        if before and (before in self.fresh or not MAX_S < _seconds(before) <= _NEARLY * MAX_S):
            return _seconds(before)
        try:
            measured = self._measure(self._load(folder, self._device, threads, 1))
        except ServiceError as error:
            log.warning("%s is left out: %s", folder.name, error)
            self.failure = error
            return None
        finally:
            release_memory()
        log.info(
            "measured %s with %d threads: %.2f s for an utterance of %d s",
            *(folder.name, threads, measured, UTTERANCE_S),
        )
        rtf = round(measured / UTTERANCE_S, 4)
        if before:
            self._known.remove(before)
            rtf = min(rtf, before.rtf)
        self.fresh.append(Measurement(model=str(folder), threads=threads, rtf=rtf))
        self._known.append(self.fresh[-1])
        return _seconds(self.fresh[-1])


def _seconds(measurement: Measurement) -> float:
    return measurement.rtf * UTTERANCE_S


def _fitting(settings: ModelSettings, device: str, free: int) -> tuple[list[Path], list[str]]:
    """Return the complete models that fit into memory, and a reason for each other one."""
    fitting, rejected = [], []
    for folder in settings.models:
        try:
            check_folder(folder)
        except ServiceError as error:
            if len(settings.models) > 1:
                log.warning("%s", error)
            rejected.append(str(error))
            continue
        needed = _needed_bytes(folder, settings) if device == "cpu" else 0
        if needed <= free:
            fitting.append(folder)
            continue
        needed_mib, free_mib = needed / 2**20, free / 2**20
        reason = f"{folder.name} needs {needed_mib:.0f} MiB of memory, {free_mib:.0f} MiB are free"
        if len(settings.models) > 1:
            rejected.append(reason)
        else:
            # There is no other model; if the server is killed while it loads, this line says why.
            log.warning("%s: give it more memory, or use a smaller model", reason)
            fitting.append(folder)
    return fitting, rejected


def _needed_bytes(folder: Path, settings: ModelSettings) -> int:
    """Return the memory that a model and its draft take."""
    if not settings.partials:
        return needed_bytes(folder, 1)
    if settings.draft is None:
        return needed_bytes(folder, 2)
    has_draft = (settings.draft / "model.bin").is_file()
    return needed_bytes(folder, 1) + (needed_bytes(settings.draft, 1) if has_draft else 0)


def _selection(
    measured: Sequence[tuple[Path, float]],
    rejected: Sequence[str],
    device: str,
    threads: int,
    failure: ServiceError | None,
) -> Selection:
    """Return the last measured model if it is fast enough, else the fastest."""
    if not measured:
        raise failure or ServiceError("; ".join(rejected), status=503)
    folder, seconds = measured[-1]
    rows = ", ".join(f"{path.name} {cost:.2f}" for path, cost in measured)
    others = "".join(f"; {reason}" for reason in rejected)
    bound = f"at most {MAX_S:g} s for an utterance of {UTTERANCE_S} s ({rows}){others}"
    if seconds <= MAX_S:
        reason = f"the first that needs {bound}"
    else:
        folder, seconds = min(measured, key=lambda one: one[1])
        reason = f"the fastest, but none needs {bound}"
    return Selection(folder, device, threads, reason, seconds)


def _cache_key(
    folders: Sequence[Path], device: str, machine: Machine, cache: MeasurementCache
) -> Mapping[str, Any]:
    """Return the conditions under which a measurement stays valid."""
    files = [[str(folder), cache.sha256(folder / "model.bin")] for folder in folders]
    runtime = [ctranslate2.__version__, device, COMPUTE_TYPES[device]]
    work = [UTTERANCE_S, TOKENS]
    return {**asdict(machine), "runtime": runtime, "models": files, "utterance": work}


def measure_utterance(model: Recogniser) -> float:
    """Return the best of three: encode a window, as long for any utterance, and decode tokens.

    A model that is far too slow is measured twice: the first time includes its preparations.
    """
    noise = np.random.default_rng(1).standard_normal(_WINDOW_S * 16_000).astype(np.float32)
    best = float("inf")
    for number in range(_ROUNDS):
        started = perf_counter()
        model.benchmark(noise * np.float32(0.1), TOKENS)
        best = min(best, perf_counter() - started)
        if number and best > _NEARLY * MAX_S:
            break
    return best


def load_recogniser(folder: Path, device: str, threads: int, workers: int) -> Recogniser:
    """Load a model; raises ServiceError."""
    return WhisperRecogniser(folder, device, threads, workers)


class ModelLoader:
    """Loads the selected model and its draft; the first call selects it."""

    def __init__(
        self,
        settings: ModelSettings,
        *,
        load: LoadFunction = load_recogniser,
        measure: MeasureFunction = measure_utterance,
        machine: Machine | None = None,
        free: int | None = None,
    ) -> None:
        """Take the settings; tests replace the rest."""
        self._settings, self._load, self._measure = settings, load, measure
        self._machine = machine or this_machine()
        self._free = free
        self._selection: Selection | None = None

    def __call__(self) -> LoadedModel:
        """Load the model and its draft; raises ServiceError."""
        selected = self._selection = self._selection or self._select()
        settings = self._settings
        shared = selected.device == "cuda" and settings.draft is None and settings.partials
        model = self._load(selected.folder, selected.device, selected.threads, 2 if shared else 1)
        draft = model if shared else self._load_draft(selected)
        return LoadedModel(model, draft, selected.reason, selected.utterance_s)

    def _select(self) -> Selection:
        device = resolve_device(self._settings.device)
        try:
            return self._select_for(device)
        except ServiceError as error:
            if device == "cpu" or self._settings.device != "auto":
                raise
            log.warning("using the CPU instead of the GPU: %s", error)
            return self._select_for("cpu")

    def _select_for(self, device: str) -> Selection:
        return select_model(
            self._settings, device, self._load, self._measure, self._machine, self._free
        )

    def _load_draft(self, selected: Selection) -> Recogniser | None:
        """Load the model for partial results; on a CPU its threads have idle priority."""
        if not self._settings.partials:
            return None
        folder = self._settings.draft or selected.folder

        def load() -> Recogniser:
            return self._load(folder, selected.device, selected.threads, 1)

        try:
            return run_in_idle_threads(load) if selected.device == "cpu" else load()
        except ServiceError as error:
            log.warning("partial results are off: %s", error)
            return None
