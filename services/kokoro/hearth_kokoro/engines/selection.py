"""Selects the engine, the model and the thread count by a measurement that is stored."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

from hearth_kokoro.engines import SAMPLE_RATE, Engine, StopSignal, Styles
from hearth_kokoro.engines.onnx import RUNTIME, OnnxEngine
from hearth_serving.errors import ServiceError
from hearth_serving.machine import Machine, this_machine
from hearth_serving.measurements import Measurement, MeasurementCache, best_threads

log = logging.getLogger(__name__)

# About two seconds of sound: long enough to measure, short enough for a slow machine.
PHRASE = "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˌOvəɹ ðə lˈAzi dˈɔɡ."  # noqa: RUF001
_ROUNDS = 4
# The first model is the most exact one: another must be at least this much faster.
_FASTER = 0.9

Load = Callable[[Path, int, str], Engine]


@dataclass(frozen=True, slots=True)
class SelectedEngine:
    """A loaded engine, the reason for its selection, and the measurements behind it."""

    engine: Engine
    threads: int
    reason: str
    measured: tuple[Measurement, ...]


def select_engine(
    models: Sequence[Path],
    state: Path | None,
    *,
    voice: Styles,
    engine: str = "auto",
    load: Load | None = None,
    machine: Machine | None = None,
) -> SelectedEngine:
    """Return the fastest engine for this machine, loaded.

    `models` are .onnx files, the most exact one first, or .pth files for PyTorch; `engine` is
    auto, onnx or torch. Measurements are stored in the folder `state`, if any: a start with the
    same files, processor and onnxruntime does not measure again.
    """
    weights = [path for path in models if path.suffix == ".pth"]
    graphs = [path for path in models if path.suffix != ".pth"]
    if engine == "torch" or (engine == "auto" and weights):
        chosen = _by_torch(weights, may_fall_back=engine == "auto" and bool(graphs))
        if chosen:
            return chosen
    if not graphs:
        raise ServiceError("--engine onnx needs a model that ends with .onnx")
    found = MeasurementCache(state)
    return _by_onnx(graphs, found, voice, load or _load, machine or this_machine())


def _by_torch(weights: Sequence[Path], *, may_fall_back: bool) -> SelectedEngine | None:
    """Load PyTorch's engine; return None if there is no GPU and an ONNX model instead."""
    from hearth_kokoro.engines.torch import TorchEngine, has_cuda_gpu

    if not weights:
        raise ServiceError("--engine torch needs weights that end with .pth")
    if may_fall_back and not has_cuda_gpu():
        log.warning("no GPU that CUDA can use; using the CPU")
        return None
    loaded = TorchEngine(weights[0])
    return SelectedEngine(loaded, loaded.threads, f"PyTorch on {loaded.provider}", ())


def _by_onnx(
    models: Sequence[Path], memory: MeasurementCache, voice: Styles, load: Load, machine: Machine
) -> SelectedEngine:
    """Load the fastest model with the fastest thread count, as stored or measured."""
    hashes = {path: memory.sha256(path) for path in models}
    named = [[path.name, digest] for path, digest in hashes.items()]
    key = {**asdict(machine), "runtime": RUNTIME, "models": named}
    candidates = [(path.name, n) for path in models for n in machine.candidates()]
    known = [one for one in memory.load(key) if (one.model, one.threads) in candidates]
    if known:
        try:
            return _best(known, hashes, machine, load)
        except ServiceError as error:
            log.warning("the stored choice failed, measuring again: %s", error)
    if len(candidates) > 1:
        measured = _measure(hashes, machine, voice, load)
        memory.store(key, measured)
        return _best(measured, hashes, machine, load)
    path = models[0]
    loaded = load(path, machine.cores, hashes[path])
    return SelectedEngine(loaded, machine.cores, "the only candidate", ())


def _best(
    known: Sequence[Measurement], hashes: Mapping[Path, str], machine: Machine, load: Load
) -> SelectedEngine:
    """Load the fastest candidate."""
    best = fastest(known, next(iter(hashes)).name, machine.cores)
    path = next(path for path in hashes if path.name == best.model)
    loaded = load(path, best.threads, hashes[path])
    return SelectedEngine(loaded, best.threads, _why(best, known), tuple(known))


def fastest(measured: Sequence[Measurement], exact: str, cores: int) -> Measurement:
    """Return the best candidate.

    A model other than the exact one must be 10 % faster. More threads than cores must be 10 %
    faster, fewer threads 25 %.
    """
    exacts = [one for one in measured if one.model == exact]
    others = [one for one in measured if one.model != exact]
    if not exacts:
        return min(others, key=lambda one: one.rtf)
    best = best_threads(exacts, cores)
    fast = min(others, key=lambda one: one.rtf, default=best)
    return fast if fast.rtf <= _FASTER * best.rtf else best


def _measure(
    hashes: Mapping[Path, str], machine: Machine, voice: Styles, load: Load
) -> tuple[Measurement, ...]:
    """Measure the thread counts with the first model, then the other models with the best count."""
    first, *others = hashes
    found = [_timed(first, threads, hashes[first], voice, load) for threads in machine.candidates()]
    threads = best_threads(found, machine.cores).threads
    for path in others:
        try:
            found.append(_timed(path, threads, hashes[path], voice, load))
        except ServiceError as error:
            log.warning("%s is left out: %s", path.name, error)
    return tuple(found)


def _timed(path: Path, threads: int, sha256: str, voice: Styles, load: Load) -> Measurement:
    """Measure one candidate; only one model is loaded at a time, because memory is limited."""
    engine = load(path, threads, sha256)
    best = float("inf")
    for turn in range(_ROUNDS):
        started = perf_counter()
        sound = engine.infer(PHRASE, voice, 1.0, StopSignal())
        seconds = perf_counter() - started
        if sound.size == 0:
            raise ServiceError(f"{path.name} returned no sound")
        if turn:  # the first inference also allocates memory
            best = min(best, seconds / (sound.size / SAMPLE_RATE))
    log.info("measured %s with %d threads: %.3f s per second of audio", path.name, threads, best)
    return Measurement(model=path.name, threads=threads, rtf=round(best, 4))


def _why(best: Measurement, known: Sequence[Measurement]) -> str:
    """Return the comparison in one line."""
    rows = ", ".join(f"{one.model} with {one.threads}: {one.rtf:.3f}" for one in known)
    return f"fastest on this machine, {best.rtf:.3f} s per second of audio ({rows})"


def _load(path: Path, threads: int, sha256: str) -> Engine:
    return OnnxEngine(path, threads, sha256=sha256)
