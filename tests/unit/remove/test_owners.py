"""A program goes with the last service that wants it, and never before."""

from pathlib import Path

import pytest

from hearth.remove import Trace
from hearth.remove.service import unwanted, want


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    programs, wanted = tmp_path / "programs", tmp_path / "wanted"
    for name in ("kokoro", "kokoro_weights", "login"):
        (programs / name / "digest").mkdir(parents=True)
        (programs / name / "current").symlink_to("digest")
    want("kokoro", "kokoro", wanted)
    for service in ("kokoro_gpu", "kokoro_fastapi"):
        want("kokoro_weights", service, wanted)
    return programs, wanted


def go(traces: list[Trace]) -> list[str]:
    for trace in traces:
        trace.remove()
    return [trace.what for trace in traces]


def test_what_one_service_alone_wants_goes_with_it(places: tuple[Path, Path]) -> None:
    programs, _ = places
    assert go(unwanted(["kokoro"], *places)) == ["program kokoro"]
    assert sorted(path.name for path in programs.iterdir()) == ["kokoro_weights", "login"]
    assert unwanted(["kokoro"], *places) == []


def test_what_another_wants_stays_until_that_one_goes(places: tuple[Path, Path]) -> None:
    programs, _ = places
    said = ["claim of kokoro_gpu to program kokoro_weights"]
    assert go(unwanted(["kokoro_gpu"], *places)) == said
    assert (programs / "kokoro_weights").exists()
    assert go(unwanted(["kokoro_fastapi"], *places)) == ["program kokoro_weights"]
    assert not (programs / "kokoro_weights").exists()


def test_looking_changes_nothing(places: tuple[Path, Path]) -> None:
    first = [trace.what for trace in unwanted(["kokoro", "kokoro_gpu"], *places)]
    assert first == [trace.what for trace in unwanted(["kokoro", "kokoro_gpu"], *places)]


def test_a_removal_that_was_killed_is_ended_by_the_next(places: tuple[Path, Path]) -> None:
    programs, wanted = places
    (programs / "kokoro" / "current").unlink()
    (programs / "kokoro" / "digest").rmdir()
    (programs / "kokoro").rmdir()
    assert go(unwanted(["kokoro"], *places)) == ["program kokoro"]
    assert not (wanted / "kokoro").exists()


def test_a_house_without_notes_gives_the_program_of_the_service_itself(tmp_path: Path) -> None:
    for name in ("ollama", "ollama-models"):
        (tmp_path / "programs" / name).mkdir(parents=True)
    found = unwanted(["ollama"], tmp_path / "programs", tmp_path / "wanted")
    assert [trace.what for trace in found] == ["program ollama"]
