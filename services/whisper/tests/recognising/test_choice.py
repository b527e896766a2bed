"""The first model that is fast enough here and fits is taken, and it is said why."""

from dataclasses import replace
from pathlib import Path

import pytest

from hearth_serving.errors import ServiceError
from hearth_serving.machine import Machine
from hearth_whisper.recognising import Recogniser
from hearth_whisper.recognising.choice import Wanted
from hearth_whisper.recognising.maker import Maker

from ..scripted import ScriptedRecogniser

MACHINE = Machine("a processor", 2, 2)
PLENTY = 1 << 40


class Bench:
    """Loads folders as scripted models whose cost is their folder's, and notes what it did."""

    def __init__(self, **costs: float) -> None:
        self.costs, self.loaded = costs, list[tuple[str, str, int, int]]()
        self.torn: set[str] = set()

    def load(self, folder: Path, device: str, threads: int, workers: int) -> Recogniser:
        self.loaded.append((folder.name, device, threads, workers))
        if folder.name in self.torn:
            raise ServiceError(f"{folder.name} is torn", status=503)
        return ScriptedRecogniser(name=folder.name, threads=threads)

    def time(self, model: Recogniser) -> float:
        return self.costs[model.name] * (2 / model.threads)

    def maker(self, asked: Wanted, free: int = PLENTY) -> Maker:
        return Maker(asked, load=self.load, time=self.time, machine=MACHINE, free=free)


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


def test_the_first_that_is_fast_enough_is_taken(tmp_path: Path) -> None:
    bench = Bench(large=0.9, small=0.4, tiny=0.1)
    models = tuple(folder(tmp_path, name) for name in bench.costs)
    loaded = bench.maker(Wanted(models, partials=False, device="cpu"))()
    assert loaded.recogniser.name == "small"
    assert loaded.rtf == 0.4
    assert "at most 0.5 s per second of audio (large 0.900, small 0.400)" in loaded.reason
    assert "tiny" not in {name for name, *_ in bench.loaded}


def test_where_none_is_fast_enough_it_is_the_fastest(tmp_path: Path) -> None:
    bench = Bench(large=1.9, small=0.8, tiny=0.6)
    models = tuple(folder(tmp_path, name) for name in bench.costs)
    loaded = bench.maker(Wanted(models, partials=False, device="cpu"))()
    assert loaded.recogniser.name == "tiny"
    assert "none needs at most 0.5 s" in loaded.reason


def test_what_does_not_fit_is_left_out_and_said(tmp_path: Path) -> None:
    bench = Bench(large=0.1, tiny=0.1)
    models = folder(tmp_path, "large", 400), folder(tmp_path, "tiny")
    loaded = bench.maker(Wanted(models, partials=False, device="cpu"), free=500 << 20)()
    assert loaded.recogniser.name == "tiny"
    assert "large needs 720 MiB of memory, 500 MiB are free" in loaded.reason


def test_the_draft_needs_memory_too(tmp_path: Path) -> None:
    bench = Bench(large=0.1, tiny=0.1)
    models = folder(tmp_path, "large", 100), folder(tmp_path, "tiny")
    draft = folder(tmp_path, "draft", 100)
    for asked, taken in (
        (Wanted(models, draft), "tiny"),
        (Wanted(models, partials=False), "large"),
    ):
        assert bench.maker(replace(asked, device="cpu"), free=600 << 20)().recogniser.name == taken


def test_one_model_is_taken_even_if_memory_looks_small_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(only=0.1)
    asked = Wanted((folder(tmp_path, "only"),), partials=False, device="cpu")
    assert bench.maker(asked, free=1 << 20)().recogniser.name == "only"
    assert "memory, 1 MiB are free: give it more memory, or use a smaller model" in caplog.text


def test_a_torn_or_missing_one_is_passed_over(tmp_path: Path) -> None:
    bench = Bench(torn=0.1, whole=0.2)
    bench.torn.add("torn")
    models = tmp_path / "nowhere", folder(tmp_path, "torn"), folder(tmp_path, "whole")
    loaded = bench.maker(Wanted(models, partials=False, device="cpu"))()
    assert loaded.recogniser.name == "whole"
    assert "no model at" in loaded.reason
    assert "torn cannot be loaded" in loaded.reason


def test_if_all_are_torn_the_reason_is_said(tmp_path: Path) -> None:
    bench = Bench(torn=0.1)
    bench.torn.add("torn")
    with pytest.raises(ServiceError, match="torn is torn"):
        bench.maker(Wanted((folder(tmp_path, "torn"),), device="cpu"))()


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    bench = Bench(large=0.9, small=0.4)
    models = tuple(folder(tmp_path, name) for name in bench.costs)
    asked = Wanted(models, partials=False, device="cpu", state=tmp_path / "state")
    first = bench.maker(asked)
    first()
    measured = len(bench.loaded)
    first()
    assert len(bench.loaded) == measured + 1
    again = bench.maker(asked)()
    assert again.recogniser.name == "small"
    assert len(bench.loaded) == measured + 2
    (models[0] / "model.bin").write_bytes(b"another")
    bench.maker(asked)()
    assert len(bench.loaded) > measured + 3


def test_one_core_is_enough_where_two_are_not_worth_it(tmp_path: Path) -> None:
    bench = Bench(small=0.4)
    bench.time = lambda model: 0.2 if model.threads == 1 else 0.4  # type: ignore[method-assign]
    loaded = bench.maker(Wanted((folder(tmp_path, "small"),), partials=False, device="cpu"))()
    assert loaded.recogniser.threads == 1


def test_the_draft_is_a_second_copy_or_the_one_that_is_named(tmp_path: Path) -> None:
    bench = Bench(small=0.4, tiny=0.1)
    small, tiny = folder(tmp_path, "small"), folder(tmp_path, "tiny")
    copy = bench.maker(Wanted((small,), device="cpu"))()
    assert copy.draft is not None
    assert copy.draft is not copy.recogniser
    assert copy.draft.name == "small"
    named = bench.maker(Wanted((small,), tiny, device="cpu"))()
    assert named.draft is not None
    assert named.draft.name == "tiny"


def test_a_torn_draft_costs_the_partials_only(tmp_path: Path) -> None:
    bench = Bench(small=0.4)
    loaded = bench.maker(Wanted((folder(tmp_path, "small"),), tmp_path / "no", device="cpu"))
    bench.torn.add("no")
    assert loaded().draft is None
