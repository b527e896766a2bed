"""A folder that is no whole model is refused in one line; unloading gives the memory back."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hearth_serving.errors import ServiceError
from hearth_serving.metrics import memory_bytes
from hearth_whisper.recognising import Options, Stop
from hearth_whisper.recognising.choice import Wanted
from hearth_whisper.recognising.idle import threads_of
from hearth_whisper.recognising.loading import device_of, load
from hearth_whisper.recognising.maker import Maker
from hearth_whisper.recognising.memory import give_back
from hearth_whisper.recognising.work import Bounds, Work

from ..recognising.test_work import until
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
def test_what_is_torn_or_foreign_is_said(
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
    with pytest.raises(ServiceError, match=line) as said:
        load(copy, "cpu", 1)
    assert "\n" not in str(said.value)
    assert len(str(said.value)) < 500
    assert said.value.status == 503


def test_a_tokenizer_of_another_model_is_refused(tiny: Path, tiny_en: Path, tmp_path: Path) -> None:
    for one in tiny.iterdir():
        source = tiny_en if one.name == "tokenizer.json" else tiny
        (tmp_path / one.name).symlink_to(source / one.name)
    with pytest.raises(ServiceError, match=r"tokenizer.json belongs to another model"):
        load(tmp_path, "cpu", 1)


def test_nowhere_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="no model at"):
        load(tmp_path / "nowhere", "cpu", 1)


def test_a_card_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctranslate2.get_cuda_device_count", lambda: 0)
    assert device_of("auto") == "cpu"
    with pytest.raises(ServiceError, match="there is no GPU"):
        device_of("cuda")


async def test_partials_compute_in_idle_threads_and_unloading_frees_the_memory(tiny: Path) -> None:
    work = Work(Maker(Wanted((tiny,), device="cpu"), time=lambda _: 0.1), Bounds(unload_s=0.5))
    options, sound = Options("en", vad=False), noise(2)
    held = []
    for _ in range(5):
        await work.final(sound, options, Stop())
        loaded = memory_bytes()
        assert await work.partial(sound, options) is not None
        threads = threads_of()
        assert threads
        assert {os.sched_getscheduler(one) for one in threads} == {os.SCHED_IDLE}
        await until(lambda: not work.describe()["loaded"])
        await asyncio.to_thread(give_back)
        held.append(memory_bytes())
        assert loaded - held[-1] > 50 << 20
    # The first round also finds the libraries' own memory. After it, what stays does not grow; the
    # weights of two copies are 120 MB, and three more rounds would leave 360.
    assert held[-1] - held[1] < 40 << 20, held
    assert work.describe()["loads"] == 5
    await work.close()
