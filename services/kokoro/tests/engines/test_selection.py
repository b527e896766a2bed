"""The selection of model and threads: measured, chosen and stored."""

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from hearth_kokoro.engines import Engine, Samples, StopSignal, Styles
from hearth_kokoro.engines.selection import fastest, select_engine
from hearth_serving.errors import ServiceError
from hearth_serving.machine import Machine
from hearth_serving.measurements import Measurement

VOICE = np.zeros((510, 1, 256), np.float32)
FOUR_CORES = Machine("a processor", 4, 8)


@dataclass
class Timed:
    """An engine with a given real-time factor."""

    model: str
    threads: int
    takes_s: float
    name: str = "onnx"
    provider: str = "CPUExecutionProvider"
    model_sha256: str = ""

    def infer(self, phonemes: str, voice: Styles, speed: float, stop: StopSignal) -> Samples:
        time.sleep(self.takes_s)
        return np.zeros(24_000, np.float32)


@dataclass
class Loader:
    """Loads such engines and records which."""

    takes_s: dict[tuple[str, int], float]
    loaded: list[tuple[str, int]] = field(default_factory=list)

    def __call__(self, path: Path, threads: int, sha256: str) -> Engine:
        self.loaded.append((path.name, threads))
        if (path.name, threads) not in self.takes_s:
            raise ServiceError("does not load")
        return Timed(path.name, threads, self.takes_s[path.name, threads])


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / name for name in ("exact.onnx", "small.onnx")]
    for path in paths:
        path.write_text(path.name)
    return paths


def measured(model: str, threads: int, rtf: float) -> Measurement:
    return Measurement(model=model, threads=threads, rtf=rtf)


def loader(small_s: float = 0.001) -> Loader:
    times = {("exact.onnx", 2): 0.04, ("exact.onnx", 4): 0.02, ("exact.onnx", 8): 0.04}
    return Loader(times | {("small.onnx", 4): small_s})


def test_the_fastest_threads_and_then_the_fastest_model_are_selected(
    models: list[Path], tmp_path: Path
) -> None:
    load = loader()
    chosen = select_engine(models, tmp_path / "state", voice=VOICE, load=load, machine=FOUR_CORES)
    assert (chosen.engine.model, chosen.threads) == ("small.onnx", 4)
    tried = [("exact.onnx", 2), ("exact.onnx", 4), ("exact.onnx", 8), ("small.onnx", 4)]
    assert load.loaded == [*tried, ("small.onnx", 4)]
    assert [(one.model, one.threads) for one in chosen.measured] == tried
    assert "small.onnx with 4" in chosen.reason


def test_the_second_start_measures_nothing(models: list[Path], tmp_path: Path) -> None:
    first = select_engine(models, tmp_path / "s", voice=VOICE, load=loader(), machine=FOUR_CORES)
    load = loader()
    again = select_engine(models, tmp_path / "s", voice=VOICE, load=load, machine=FOUR_CORES)
    assert load.loaded == [("small.onnx", 4)]
    assert (again.measured, again.reason) == (first.measured, first.reason)


@pytest.mark.parametrize("change", ["model", "processor", "order", "file"])
def test_a_changed_input_is_measured_again(models: list[Path], tmp_path: Path, change: str) -> None:
    state, machine = tmp_path / "s", FOUR_CORES
    select_engine(models, state, voice=VOICE, load=loader(), machine=machine)
    if change == "model":
        models[1].write_text("another one")
    elif change == "processor":
        machine = Machine("another processor", 4, 8)
    elif change == "order":
        models = models[:1]
    else:
        (state / "choice.json").write_text('{"version": 1, "key": 5')
    load = loader()
    select_engine(models, state, voice=VOICE, load=load, machine=machine)
    assert len(load.loaded) > 2


@pytest.mark.parametrize(
    "change",
    [
        # (what is in the file, what is there instead)
        ('"version": 1', '"version": 2'),
        ('"version": 1', '"version": null'),
        ('"files": {', '"files": [], "was": {'),
        ('"files": {', '"files": 5, "was": {'),
        ('"mark": [', '"mark": null, "was": ['),
        ('"sha256": "', '"sha256": 5, "was": "'),
        ('"key": {', '"key": null, "was": {'),
        ('"measured": [', '"measured": [5, '),
        ('"measured": [', '"measured": [{"model": "exact.onnx"}, '),
        ('"threads": 4,', '"threads": Infinity,'),
        ('"threads": 4,', '"threads": -4,'),
        ('"threads": 4,', '"threads": 4000000,'),
        ('"rtf": ', '"rtf": NaN, "was": '),
        ('"rtf": ', '"rtf": -1, "was": '),
        ('"model": ', '"model": null, "was": '),
        ('"model": "exact', '"model": "gone'),
        ("{", "[" * 100_000 + "{"),
        ('"version"', "\0"),
        ("}", ""),
    ],
)
def test_a_manipulated_file_does_not_prevent_a_start(
    models: list[Path], tmp_path: Path, change: tuple[str, str]
) -> None:
    select_engine(models, tmp_path, voice=VOICE, load=loader(), machine=FOUR_CORES)
    path = tmp_path / "choice.json"
    good = path.read_text()
    assert change[0] in good
    path.write_text(good.replace(*change))
    chosen = select_engine(models, tmp_path, voice=VOICE, load=loader(), machine=FOUR_CORES)
    assert chosen.engine.model in ("exact.onnx", "small.onnx")
    assert chosen.threads in FOUR_CORES.candidates()
    # It heals.
    load = loader()
    select_engine(models, tmp_path, voice=VOICE, load=load, machine=FOUR_CORES)
    assert len(load.loaded) == 1


@pytest.mark.parametrize("length", [0, 1, 100, 400, 700])
def test_a_truncated_file_does_not_prevent_a_start(
    models: list[Path], tmp_path: Path, length: int
) -> None:
    select_engine(models, tmp_path, voice=VOICE, load=loader(), machine=FOUR_CORES)
    path = tmp_path / "choice.json"
    path.write_bytes(path.read_bytes()[:length])
    chosen = select_engine(models, tmp_path, voice=VOICE, load=loader(), machine=FOUR_CORES)
    assert len(chosen.measured) == 4


def test_a_stored_choice_that_does_not_load_is_measured_again(
    models: list[Path], tmp_path: Path
) -> None:
    select_engine(models, tmp_path, voice=VOICE, load=loader(), machine=FOUR_CORES)
    load = loader()
    del load.takes_s["small.onnx", 4]
    chosen = select_engine(models, tmp_path, voice=VOICE, load=load, machine=FOUR_CORES)
    assert (chosen.engine.model, chosen.threads) == ("exact.onnx", 4)


def test_an_unreadable_file_does_not_prevent_a_start(models: list[Path], tmp_path: Path) -> None:
    (tmp_path / "choice.json").mkdir()
    assert (
        select_engine(models, tmp_path, voice=VOICE, load=loader(), machine=FOUR_CORES).threads == 4
    )


def test_without_a_state_folder_a_model_is_still_selected(models: list[Path]) -> None:
    chosen = select_engine(
        models, Path("/proc/none"), voice=VOICE, load=loader(), machine=FOUR_CORES
    )
    assert chosen.threads == 4
    assert select_engine(models, None, voice=VOICE, load=loader(), machine=FOUR_CORES).threads == 4


def test_a_single_candidate_is_not_measured(models: list[Path]) -> None:
    load = Loader({("exact.onnx", 1): 0.0})
    chosen = select_engine(models[:1], None, voice=VOICE, load=load, machine=Machine("one", 1, 1))
    assert load.loaded == [("exact.onnx", 1)]
    assert chosen.reason == "the only candidate"


def test_a_second_model_that_does_not_load_is_left_out(models: list[Path]) -> None:
    load = Loader({("exact.onnx", 1): 0.0})
    chosen = select_engine(models, None, voice=VOICE, load=load, machine=Machine("one", 1, 1))
    assert chosen.engine.model == "exact.onnx"


def test_a_less_exact_model_must_be_ten_percent_faster() -> None:
    exact, slower = measured("exact", 2, 0.200), measured("exact", 1, 0.300)
    close, far = measured("small", 2, 0.181), measured("small", 2, 0.179)
    assert fastest([slower, exact, close], "exact", 2) is exact
    assert fastest([slower, exact, far], "exact", 2) is far


@pytest.mark.parametrize(
    ("rtfs", "threads"),
    [
        ({2: 0.20, 4: 0.20, 8: 0.20}, 4),
        ({2: 0.16, 4: 0.20, 8: 0.19}, 4),
        ({2: 0.14, 4: 0.20, 8: 0.19}, 2),
        ({2: 0.30, 4: 0.20, 8: 0.17}, 8),
    ],
)
def test_threads_differ_from_the_cores_only_for_a_clear_gain(
    rtfs: dict[int, float], threads: int
) -> None:
    """Other load makes fewer threads look better than they are."""
    rows = [measured("exact", number, rtf) for number, rtf in rtfs.items()]
    assert fastest(rows, "exact", 4).threads == threads


@pytest.mark.parametrize(
    ("names", "engine", "message"),
    [
        (["w.pth"], "onnx", "--engine onnx needs a model that ends with .onnx"),
        (["m.onnx"], "torch", "--engine torch needs weights that end with .pth"),
        (["gone.onnx"], "auto", "no model at gone.onnx: No such file or directory"),
    ],
)
def test_mismatched_options_are_rejected(names: list[str], engine: str, message: str) -> None:
    with pytest.raises(ServiceError) as caught:
        select_engine([Path(name) for name in names], None, voice=VOICE, engine=engine)
    assert str(caught.value) == message


def test_a_model_is_hashed_again_only_after_a_change(
    models: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []

    def sha256_of(path: Path) -> str:
        hashed.append(path.name)
        return "0" * 64

    monkeypatch.setattr("hearth_serving.measurements.sha256_of", sha256_of)
    for _ in range(2):
        select_engine(models, tmp_path, voice=VOICE, load=loader(), machine=FOUR_CORES)
    assert hashed == ["exact.onnx", "small.onnx"]
