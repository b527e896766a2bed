"""An incomplete model is rejected with one line; unloading frees the memory."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from hearth_serving.errors import ServiceError
from hearth_serving.metrics import memory_bytes
from hearth_whisper.recognition import Options
from hearth_whisper.recognition.loading import load_model, resolve_device
from hearth_whisper.recognition.model_selection import ModelLoader, ModelSettings
from hearth_whisper.recognition.resources import release_memory, threads_named
from hearth_whisper.recognition.scheduler import Scheduler, SchedulerLimits

from ..recognition.test_scheduler import until
from .test_recogniser import noise


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def spoil(path: Path) -> None:
    path.write_bytes(b"not what it says" * 100)


def foreign(path: Path) -> None:
    path.write_text(json.dumps({"architectures": ["WhisperForConditionalGeneration"]}))


@pytest.mark.parametrize(
    ("file", "harm", "line"),
    [
        ("model.bin", cut, "cannot be loaded: .*fetch its files again"),
        ("model.bin", spoil, "cannot be loaded: .*fetch its files again"),
        ("model.bin", Path.unlink, "is incomplete: model.bin is missing"),
        ("tokenizer.json", cut, "cannot be loaded: .*fetch its files again"),
        ("tokenizer.json", Path.unlink, "is incomplete: tokenizer.json is missing"),
        ("vocabulary.txt", Path.unlink, "is incomplete: vocabulary.json is missing"),
        ("config.json", spoil, "config.json does not describe a Whisper model"),
        ("config.json", foreign, "config.json does not describe a Whisper model"),
    ],
)
def test_a_corrupt_or_foreign_model_is_reported(
    tiny: Path, tmp_path: Path, file: str, harm: Callable[[Path], None], line: str
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for one in tiny.iterdir():
        if one.name == file:
            shutil.copy(one, copy)
        else:
            (copy / one.name).symlink_to(one)
    harm(copy / file)
    with pytest.raises(ServiceError, match=line) as caught:
        load_model(copy, "cpu", 1)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert caught.value.status == 503


def test_the_tokenizer_of_another_model_is_rejected(
    tiny: Path, tiny_en: Path, tmp_path: Path
) -> None:
    for one in tiny.iterdir():
        source = tiny_en if one.name == "tokenizer.json" else tiny
        (tmp_path / one.name).symlink_to(source / one.name)
    with pytest.raises(ServiceError, match=r"tokenizer.json belongs to another model"):
        load_model(tmp_path, "cpu", 1)


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="no model at"):
        load_model(tmp_path / "nowhere", "cpu", 1)


def test_a_missing_gpu_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctranslate2.get_cuda_device_count", lambda: 0)
    assert resolve_device("auto") == "cpu"
    with pytest.raises(ServiceError, match="there is no GPU"):
        resolve_device("cuda")


async def test_partials_run_in_idle_threads_and_unloading_frees_the_memory(tiny: Path) -> None:
    scheduler = Scheduler(
        ModelLoader(ModelSettings((tiny,), device="cpu"), measure=lambda _: 0.1),
        SchedulerLimits(unload_s=0.5),
    )
    options, audio = Options("en", vad=False), noise(2)
    held = []
    for _ in range(5):
        await scheduler.transcribe_final(audio, options, Event())
        loaded = memory_bytes()
        assert await scheduler.transcribe_partial(audio, options) is not None
        threads = threads_named()
        assert threads
        assert {os.sched_getscheduler(one) for one in threads} == {os.SCHED_IDLE}
        await until(lambda: not scheduler.describe()["loaded"])
        await asyncio.to_thread(release_memory)
        held.append(memory_bytes())
        assert loaded - held[-1] > 50 << 20
    # The first round includes the libraries' own memory. After it, the memory must not grow: the
    # weights of two copies are 120 MB, and three more rounds would leave 360.
    assert held[-1] - held[1] < 40 << 20, held
    assert scheduler.describe()["loads"] == 5
    await scheduler.close()
