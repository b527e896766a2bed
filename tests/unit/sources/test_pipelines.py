"""Pipelines are installed as upstream's server expects them, and nothing else stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hearth.sources import SourceError
from hearth.sources.installers import install_pipelines
from hearth.sources.programs import Installed


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Two pipelines."""
    found = {name: tmp_path / f"{name}.py" for name in ("one", "two")}
    for name, path in found.items():
        path.write_text(f"class Pipeline: '{name}'\n")
    return found


def put(files: dict[str, Path], tmp_path: Path, **more: Any) -> Installed:
    given = {"valves": {}, "without": [], "name": "pipelines_files", **more}
    return install_pipelines(files, programs=tmp_path / "programs", **given)


def test_each_pipeline_is_beside_its_valves(files: dict[str, Path], tmp_path: Path) -> None:
    done = put(files, tmp_path, valves={"two": {"word": "x"}})
    assert done.did == "install"
    for name, path in files.items():
        assert (done.path / f"{name}.py").read_bytes() == path.read_bytes()
    assert json.loads((done.path / "one/valves.json").read_text()) == {}
    assert json.loads((done.path / "two/valves.json").read_text()) == {"word": "x"}
    assert put(files, tmp_path, valves={"two": {"word": "x"}}).did == "nothing"


def test_a_change_makes_a_fresh_folder_without_removed_pipelines(
    files: dict[str, Path], tmp_path: Path
) -> None:
    first = put(files, tmp_path)
    changed = put(files, tmp_path, valves={"one": {"word": "x"}})
    assert changed.did == "install"
    assert changed.path != first.path
    fewer = put({"one": files["one"]}, tmp_path)
    assert sorted(path.name for path in fewer.path.iterdir() if path.name[0] != ".") == [
        "one",
        "one.py",
    ]
    assert put(files, tmp_path, without=["two"]).digest == fewer.digest


def test_a_preview_touches_nothing(files: dict[str, Path], tmp_path: Path) -> None:
    assert put(files, tmp_path, write=False).did == "install"
    assert not (tmp_path / "programs").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"valves": {"ones": {}}}, "pipelines_valves names no pipeline ones: did you mean one?"),
        ({"without": ["three"]}, "pipelines_without names no pipeline three: known: one, two"),
        ({"valves": {"one": 3}}, "pipelines_valves one must be a mapping of valves to values"),
    ],
)
def test_an_unknown_name_or_valve_is_refused(
    files: dict[str, Path], tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(SourceError) as caught:
        put(files, tmp_path, **given)
    assert str(caught.value) == message
