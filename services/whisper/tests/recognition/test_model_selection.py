"""The first model that fits and is fast enough is selected, with a reason."""

from dataclasses import replace
from pathlib import Path

import pytest

from hearth_serving.errors import ServiceError
from hearth_serving.machine import Machine
from hearth_whisper.recognition import Recogniser
from hearth_whisper.recognition.model_selection import ModelLoader, ModelSettings

from ..scripted import ScriptedRecogniser

MACHINE = Machine("a processor", 2, 2)
PLENTY = 1 << 40


class Bench:
    """Loads folders as scripted models with the given costs, and notes each load."""

    def __init__(self, **costs: float) -> None:
        self.costs, self.loaded = costs, list[tuple[str, str, int, int]]()
        self.corrupt: set[str] = set()

    def load(self, folder: Path, device: str, threads: int, workers: int) -> Recogniser:
        self.loaded.append((folder.name, device, threads, workers))
        if folder.name in self.corrupt:
            raise ServiceError(f"{folder.name} is corrupt", status=503)
        return ScriptedRecogniser(name=folder.name, threads=threads)

    def measure(self, model: Recogniser) -> float:
        return self.costs[model.name] * (2 / model.threads)

    def loader(self, settings: ModelSettings, free: int = PLENTY) -> ModelLoader:
        return ModelLoader(
            settings, load=self.load, measure=self.measure, machine=MACHINE, free=free
        )


def folder(at: Path, name: str, mib: int = 1) -> Path:
    made = at / name
    made.mkdir()
    for file in ("tokenizer.json", "vocabulary.txt"):
        (made / file).write_text("{}")
    (made / "config.json").write_text('{"lang_ids": []}')
    with (made / "model.bin").open("wb") as weights:
        weights.write(name.encode())
        weights.truncate(mib << 20)
    return made


def test_the_first_fast_enough_model_is_selected(tmp_path: Path) -> None:
    bench = Bench(large=2.9, small=0.9, tiny=0.1)
    models = tuple(folder(tmp_path, name) for name in bench.costs)
    loaded = bench.loader(ModelSettings(models, partials=False, device="cpu"))()
    assert loaded.recogniser.name == "small"
    assert loaded.utterance_s == pytest.approx(0.9)
    assert "at most 1.1 s for an utterance of 3 s (large 2.90, small 0.90)" in loaded.reason
    assert "tiny" not in {name for name, *_ in bench.loaded}


def test_the_fastest_is_selected_if_none_is_fast_enough(tmp_path: Path) -> None:
    bench = Bench(large=4.9, small=1.8, tiny=1.2)
    models = tuple(folder(tmp_path, name) for name in bench.costs)
    loaded = bench.loader(ModelSettings(models, partials=False, device="cpu"))()
    assert loaded.recogniser.name == "tiny"
    assert "none needs at most 1.1 s" in loaded.reason


def test_a_model_that_does_not_fit_is_rejected_with_a_reason(tmp_path: Path) -> None:
    bench = Bench(large=0.1, tiny=0.1)
    models = folder(tmp_path, "large", 400), folder(tmp_path, "tiny")
    loaded = bench.loader(ModelSettings(models, partials=False, device="cpu"), free=500 << 20)()
    assert loaded.recogniser.name == "tiny"
    assert "large needs 720 MiB of memory, 500 MiB are free" in loaded.reason


def test_the_draft_needs_memory_too(tmp_path: Path) -> None:
    bench = Bench(large=0.1, tiny=0.1)
    models = folder(tmp_path, "large", 100), folder(tmp_path, "tiny")
    draft = folder(tmp_path, "draft", 100)
    for settings, taken in (
        (ModelSettings(models, draft), "tiny"),
        (ModelSettings(models, partials=False), "large"),
    ):
        assert (
            bench.loader(replace(settings, device="cpu"), free=600 << 20)().recogniser.name == taken
        )


def test_a_single_model_is_loaded_with_a_warning_if_memory_is_short(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(only=0.1)
    settings = ModelSettings((folder(tmp_path, "only"),), partials=False, device="cpu")
    assert bench.loader(settings, free=1 << 20)().recogniser.name == "only"
    assert "memory, 1 MiB are free: give it more memory, or use a smaller model" in caplog.text


def test_a_corrupt_or_missing_model_is_skipped(tmp_path: Path) -> None:
    bench = Bench(corrupt=0.1, whole=0.2)
    bench.corrupt.add("corrupt")
    models = tmp_path / "nowhere", folder(tmp_path, "corrupt"), folder(tmp_path, "whole")
    loaded = bench.loader(ModelSettings(models, partials=False, device="cpu"))()
    assert loaded.recogniser.name == "whole"
    assert "no model at" in loaded.reason
    assert "corrupt cannot be loaded" in loaded.reason


def test_the_reason_is_raised_if_all_models_are_corrupt(tmp_path: Path) -> None:
    bench = Bench(corrupt=0.1)
    bench.corrupt.add("corrupt")
    with pytest.raises(ServiceError, match="corrupt is corrupt"):
        bench.loader(ModelSettings((folder(tmp_path, "corrupt"),), device="cpu"))()


def test_measurements_are_reused(tmp_path: Path) -> None:
    bench = Bench(large=2.9, small=0.4)
    models = tuple(folder(tmp_path, name) for name in bench.costs)
    settings = ModelSettings(models, partials=False, device="cpu", state=tmp_path / "state")
    first = bench.loader(settings)
    first()
    measured = len(bench.loaded)
    first()
    assert len(bench.loaded) == measured + 1
    again = bench.loader(settings)()
    assert again.recogniser.name == "small"
    assert len(bench.loaded) == measured + 2
    (models[0] / "model.bin").write_bytes(b"another")
    bench.loader(settings)()
    assert len(bench.loaded) > measured + 3


def test_a_model_that_was_nearly_fast_enough_is_measured_again(tmp_path: Path) -> None:
    bench = Bench(large=9.0, small=1.5, tiny=0.1)
    models = tuple(folder(tmp_path, name) for name in bench.costs)
    settings = ModelSettings(models, partials=False, device="cpu", state=tmp_path / "state")
    assert bench.loader(settings)().recogniser.name == "tiny"
    # A start that is busier still leaves it as near as it was.
    bench.costs["small"] = 5.0
    assert bench.loader(settings)().recogniser.name == "tiny"
    bench.costs["small"] = 0.9
    large = [row for row in bench.loaded if row[0] == "large"]
    assert bench.loader(settings)().recogniser.name == "small"
    assert large == [row for row in bench.loaded if row[0] == "large"]
    # A busy moment does not take the choice back.
    bench.costs["small"] = 1.5
    assert bench.loader(settings)().recogniser.name == "small"


def test_one_thread_is_used_if_two_are_slower(tmp_path: Path) -> None:
    bench = Bench(small=0.4)
    bench.measure = lambda model: 0.2 if model.threads == 1 else 0.4  # type: ignore[method-assign]
    loaded = bench.loader(
        ModelSettings((folder(tmp_path, "small"),), partials=False, device="cpu")
    )()
    assert loaded.recogniser.threads == 1


def test_the_draft_is_a_second_copy_or_the_given_model(tmp_path: Path) -> None:
    bench = Bench(small=0.4, tiny=0.1)
    small, tiny = folder(tmp_path, "small"), folder(tmp_path, "tiny")
    copy = bench.loader(ModelSettings((small,), device="cpu"))()
    assert copy.draft is not None
    assert copy.draft is not copy.recogniser
    assert copy.draft.name == "small"
    named = bench.loader(ModelSettings((small,), tiny, device="cpu"))()
    assert named.draft is not None
    assert named.draft.name == "tiny"


def test_a_corrupt_draft_disables_only_partial_results(tmp_path: Path) -> None:
    bench = Bench(small=0.4)
    loaded = bench.loader(
        ModelSettings((folder(tmp_path, "small"),), tmp_path / "no", device="cpu")
    )
    bench.corrupt.add("no")
    assert loaded().draft is None
