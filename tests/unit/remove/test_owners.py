"""A program is removed with the last service that uses it, and never before."""

from pathlib import Path

import pytest

from hearth.remove import Trace
from hearth.remove.service import claim, unclaimed


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    programs, claims = tmp_path / "programs", tmp_path / "claims"
    for name in ("kokoro", "kokoro_weights", "login"):
        (programs / name / "digest").mkdir(parents=True)
        (programs / name / "current").symlink_to("digest")
    assert claim("kokoro", "kokoro", write=False, claims=claims)
    assert not claims.exists()
    assert claim("kokoro", "kokoro", write=True, claims=claims)
    assert not claim("kokoro", "kokoro", write=True, claims=claims)
    for service in ("kokoro_gpu", "kokoro_fastapi"):
        claim("kokoro_weights", service, write=True, claims=claims)
    return programs, claims


def remove(traces: list[Trace]) -> list[str]:
    for trace in traces:
        trace.remove()
    return [trace.what for trace in traces]


def test_a_program_of_one_service_is_removed_with_it(places: tuple[Path, Path]) -> None:
    programs, _ = places
    assert remove(unclaimed(["kokoro"], *places)) == ["program kokoro"]
    assert sorted(path.name for path in programs.iterdir()) == ["kokoro_weights", "login"]
    assert unclaimed(["kokoro"], *places) == []


def test_a_shared_program_stays_until_its_last_service_is_removed(
    places: tuple[Path, Path],
) -> None:
    programs, _ = places
    expected = ["claim of kokoro_gpu to program kokoro_weights"]
    assert remove(unclaimed(["kokoro_gpu"], *places)) == expected
    assert (programs / "kokoro_weights").exists()
    assert remove(unclaimed(["kokoro_fastapi"], *places)) == ["program kokoro_weights"]
    assert not (programs / "kokoro_weights").exists()


def test_looking_changes_nothing(places: tuple[Path, Path]) -> None:
    first = [trace.what for trace in unclaimed(["kokoro", "kokoro_gpu"], *places)]
    assert first == [trace.what for trace in unclaimed(["kokoro", "kokoro_gpu"], *places)]


def test_the_next_run_finishes_a_killed_removal(places: tuple[Path, Path]) -> None:
    programs, claims = places
    (programs / "kokoro" / "current").unlink()
    (programs / "kokoro" / "digest").rmdir()
    (programs / "kokoro").rmdir()
    assert remove(unclaimed(["kokoro"], *places)) == ["program kokoro"]
    assert not (claims / "kokoro").exists()
