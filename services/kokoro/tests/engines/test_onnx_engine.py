"""The ONNX engine, on graphs without weights."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from hearth_kokoro.engines import InferenceStopped, StopSignal, Styles
from hearth_kokoro.engines.onnx import OnnxEngine
from hearth_serving.errors import ServiceError

from . import tiny


@pytest.fixture
def voice() -> Styles:
    """A voice whose style encodes its number of phonemes n: the values sum to n / 1000."""
    rows = np.arange(1, 511, dtype=np.float32) / 1000 / 256
    return np.repeat(rows[:, None, None], 256, axis=2)


@pytest.mark.parametrize("newer", [False, True])
def test_both_published_model_signatures_work(tmp_path: Path, voice: Styles, newer: bool) -> None:
    engine = OnnxEngine(tiny.write(tmp_path / "tiny.onnx", newer=newer), 1)
    sound = engine.infer("hɛllOO.", voice, 1.0, StopSignal())
    # Seven phonemes, and a pad on either side.
    assert sound.shape == (9 * 600,)
    assert sound.dtype == np.float32
    assert sound[0] == pytest.approx(0.007, rel=1e-3)


def test_a_higher_speed_shortens_the_sound(tmp_path: Path, voice: Styles) -> None:
    engine = OnnxEngine(tiny.write(tmp_path / "tiny.onnx"), 1)
    assert engine.infer("aa", voice, 4.0, StopSignal()).shape == (600,)
    assert engine.infer("aa", voice, 0.25, StopSignal()).shape == (9600,)


def test_a_model_with_whole_speeds_gets_the_nearest_one(tmp_path: Path, voice: Styles) -> None:
    engine = OnnxEngine(tiny.write(tmp_path / "tiny.onnx", whole_speeds=True), 1)
    assert engine.infer("aa", voice, 0.25, StopSignal()).shape == (2400,)
    assert engine.infer("aa", voice, 1.8, StopSignal()).shape == (1200,)


def test_phonemes_outside_the_vocabulary_are_skipped(tmp_path: Path, voice: Styles) -> None:
    engine = OnnxEngine(tiny.write(tmp_path / "tiny.onnx"), 1)
    assert engine.infer("a\u4e00a", voice, 1.0, StopSignal()).shape == (4 * 600,)
    assert engine.infer("", voice, 1.0, StopSignal()).shape == (0,)


def test_the_vocabulary_inside_the_model_wins(tmp_path: Path, voice: Styles) -> None:
    path = tiny.write(tmp_path / "t.onnx", newer=True, config=json.dumps({"vocab": {"a": 1}}))
    assert OnnxEngine(path, 1).infer("ab", voice, 1.0, StopSignal()).shape == (3 * 600,)


def test_more_than_510_phonemes_are_rejected(tmp_path: Path, voice: Styles) -> None:
    engine = OnnxEngine(tiny.write(tmp_path / "tiny.onnx"), 1)
    assert engine.infer("a" * 510, voice, 1.0, StopSignal()).shape == (512 * 600,)
    with pytest.raises(
        ServiceError, match="511 phonemes in one inference; the model takes at most 510"
    ):
        engine.infer("a" * 511, voice, 1.0, StopSignal())


def test_sound_is_within_one(tmp_path: Path) -> None:
    engine = OnnxEngine(tiny.write(tmp_path / "tiny.onnx"), 1)
    loud = np.full((510, 1, 256), 1.0, np.float32)
    assert engine.infer("a", loud, 1.0, StopSignal()).max() == 1.0
    assert not engine.infer("a", loud * np.nan, 1.0, StopSignal()).any()


def test_the_engine_reports_its_name_and_provider(tmp_path: Path) -> None:
    engine = OnnxEngine(tiny.write(tmp_path / "tiny.onnx"), 1)
    described = (engine.name, engine.provider, engine.model, engine.threads)
    assert described == ("onnx", "CPUExecutionProvider", "tiny.onnx", 1)
    assert len(engine.model_sha256) == 64


def test_an_inference_ends_within_100_ms_of_its_stop(tmp_path: Path, voice: Styles) -> None:
    engine = OnnxEngine(tiny.write_endless(tmp_path / "endless.onnx"), 1)
    stop, stopped_at = StopSignal(), [0.0]
    # Only its own processor time counts: other programs may run meanwhile.
    work = time.pthread_getcpuclockid(threading.get_ident())

    def set_it() -> None:
        stopped_at[0] = time.clock_gettime(work)
        stop.set()

    timer = threading.Timer(0.2, set_it)
    timer.start()
    with pytest.raises(InferenceStopped):
        engine.infer("a", voice, 1.0, stop)
    assert stopped_at[0] > 0
    assert time.clock_gettime(work) - stopped_at[0] < 0.1


def test_a_stop_before_the_inference_counts(tmp_path: Path, voice: Styles) -> None:
    engine = OnnxEngine(tiny.write_endless(tmp_path / "endless.onnx"), 1)
    stop = StopSignal()
    stop.set()
    with pytest.raises(InferenceStopped):
        engine.infer("a", voice, 1.0, stop)


def test_the_runtime_sends_no_telemetry(tmp_path: Path) -> None:
    model, home = tiny.write(tmp_path / "tiny.onnx"), tmp_path / "home"
    home.mkdir()
    code = (
        "import sys; from pathlib import Path; from hearth_kokoro.engines.onnx import OnnxEngine; "
        "OnnxEngine(Path(sys.argv[1]), 1)"
    )
    # Its own switches for continuous integration would hide that ours is missing.
    hidden = ("ORT_DISABLE_TELEMETRY", "ORT_RUNNING_UNIT_TESTS", "CI", "GITHUB_ACTIONS")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("XDG_CACHE_HOME", None)
    subprocess.run(
        [sys.executable, "-c", code, str(model)], check=True, timeout=60, env=environment
    )
    assert list(home.rglob("*")) == []


@pytest.mark.parametrize("damage", ["garbage", "empty", "truncated", "zeros", "another graph"])
def test_a_broken_model_is_one_line(tmp_path: Path, damage: str) -> None:
    broken = tiny.write(tmp_path / "broken.onnx")
    whole = broken.read_bytes()
    content = {
        "garbage": b"not a model",
        "empty": b"",
        "truncated": whole[: len(whole) // 2],
        "zeros": whole[:200] + bytes(len(whole)),
        "another graph": whole.replace(b"style", b"stile"),
    }
    broken.write_bytes(content[damage])
    with pytest.raises(
        ServiceError, match=r"broken\.onnx is not a (valid ONNX model|Kokoro model)"
    ) as caught:
        OnnxEngine(broken, 1)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("config", ["{", "[]", '{"vocab": 5}', '{"vocab": {"a": "1"}}'])
def test_a_broken_vocabulary_inside_a_model_is_one_line(tmp_path: Path, config: str) -> None:
    path = tiny.write(tmp_path / "t.onnx", config=config)
    with pytest.raises(ServiceError, match=r"t\.onnx has a broken kokoro_config: "):
        OnnxEngine(path, 1)
