"""The shape of every release: patched, patched again, and restored."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest

from hearth_kokoro_patch import ALL, STEPS, PatchError, plan, state, take_back

from .conftest import NAMES, SHAPES, Release, contents

ENGINE, SERVICE, PLAYER = NAMES.values()
OLD_PLAYERS = ["v0.2.0", "v0.2.1", "v0.2.3", "published"]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_release_is_patched_once_and_restored_byte_for_byte(release: Release, shape: str) -> None:
    folder = release(shape)
    before = contents(folder)
    first = plan(folder)
    assert contents(folder) == before, "a plan changes nothing"
    assert state(folder) == "none"
    assert first.files == ((ENGINE, SERVICE, PLAYER) if shape in OLD_PLAYERS else (ENGINE, SERVICE))
    first.apply()
    assert state(folder) == "applied"
    patched = contents(folder)
    again = plan(folder)
    assert (again.files, again.diff()) == ((), "")
    again.apply()
    assert contents(folder) == patched
    assert take_back(folder) == first.files
    assert contents(folder) == before
    assert state(folder) == "none"
    assert take_back(folder) == ()


@pytest.mark.parametrize("shape", SHAPES)
def test_each_step_makes_only_its_own_change(release: Release, shape: str) -> None:
    folder = release(shape)
    texts = {}
    for step in STEPS:
        plan(folder, frozenset({step})).apply()
        texts[step] = "".join((folder / name).read_text() for name in (ENGINE, SERVICE))
    assert {s for s, text in texts.items() if r'split_pattern=r"(?<=[.!?])\s+"' in text} == {
        "sentences"
    }
    assert {s for s, text in texts.items() if "await asyncio.sleep(0)" in text} == {"yielding"}
    assert {s for s, text in texts.items() if "_HEARTH_WORKER" in text} == {"threads"}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_yield_of_an_async_function_is_followed_by_one_pause(
    release: Release, shape: str
) -> None:
    folder = release(shape)
    plan(folder, frozenset({"yielding"})).apply()
    for name in (ENGINE, SERVICE):
        text = (folder / name).read_text()
        yields = sum(isinstance(node, ast.Yield) for node in ast.walk(ast.parse(text)))
        assert yields == text.count("await asyncio.sleep(0)") > 0


def test_patch_and_git_can_apply_the_diff(release: Release, tmp_path: Path) -> None:
    folder = release("v0.2.1")
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    wanted = plan(folder)
    wanted.apply()
    subprocess.run(
        ["git", "apply", "--unsafe-paths", f"--directory={copy}", "-"],
        input=wanted.diff().encode(),
        cwd=tmp_path,
        check=True,
        timeout=30,
    )
    for name in NAMES.values():
        assert (copy / name).read_bytes() == (folder / name).read_bytes()


def test_a_release_before_the_pipeline_is_rejected(release: Release) -> None:
    folder = release("v0.1")
    before = contents(folder)
    with pytest.raises(PatchError, match=r"kokoro_v1\.py: is not there; releases before v0\.2\.0"):
        plan(folder)
    assert contents(folder) == before


def test_a_manual_patch_is_not_repeated(release: Release) -> None:
    folder = release("v0.8")
    plan(folder).apply()
    by_hand = {name: (folder / name).read_text() for name in (ENGINE, SERVICE)}
    shutil.rmtree(folder / ".hearth-patch")
    for name, text in by_hand.items():
        unmarked = "".join(line for line in text.splitlines(True) if "Patched by" not in line)
        (folder / name).write_text(unmarked)
    assert plan(folder).files == ()
    assert state(folder) == "none"


def test_the_published_pattern_is_replaced_where_it_is_passed(release: Release) -> None:
    folder = release("published")
    plan(folder, frozenset({"sentences"})).apply()
    text = (folder / ENGINE).read_text()
    assert r"r'\n+'" not in text
    assert text.count("split_pattern=") == 1


def test_steps_can_be_changed_later(release: Release) -> None:
    folder = release("v0.8")
    before = contents(folder)
    plan(folder).apply()
    fewer = plan(folder, ALL - {"threads"})
    assert fewer.files == (ENGINE, SERVICE)
    assert "-_HEARTH_WORKER" in fewer.diff()
    fewer.apply()
    assert state(folder) == "applied"
    assert "_HEARTH_WORKER" not in (folder / ENGINE).read_text()
    plan(folder, frozenset({"player"})).apply()
    assert state(folder) == "none", "this release's player needs nothing"
    plan(folder, frozenset({"sentences"})).apply()
    assert (folder / SERVICE).read_bytes() == before[SERVICE]
    assert state(folder) == "applied"
    take_back(folder)
    assert contents(folder) == before


def test_an_unknown_step_is_named(release: Release) -> None:
    with pytest.raises(PatchError, match=r"no step 'thread': did you mean threads\?"):
        plan(release("v0.8"), frozenset({"thread"}))
