"""A broken pipeline is left out and reported; the others work, and the folder does not change."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import ECHO, Start, events, streamed_text

GOOD = ECHO.format(text="Good")
PIPE = "  def pipe(self, **arguments):\n    return 'never'\n"
BROKEN = {
    "syntax": ("class Pipeline\n", "line 1: expected ':'"),
    "import_of_nothing": (
        f"import nowhere_to_be_found\nclass Pipeline:\n{PIPE}",
        "ModuleNotFoundError in line 1: no module named nowhere_to_be_found",
    ),
    "raises": (
        "class Pipeline:\n  def __init__(self):\n    1 / 0\n",
        "ZeroDivisionError in line 3",
    ),
    "no_class": ("x = 1\n", "it has no class Pipeline"),
    "no_pipe": ("class Pipeline:\n  pass\n", "class Pipeline has no pipe"),
    "asynchronous": ("class Pipeline:\n  async def pipe(self):\n    pass\n", "pipe is async"),
    "unknown_type": (
        f"class Pipeline:\n  type = 'pipe'\n{PIPE}",
        "type is 'pipe': write filter",
    ),
    "ends": ("import sys\nsys.exit(3)\n", "it calls sys.exit"),
    "fails_at_start": (
        f"class Pipeline:\n{PIPE}  async def on_startup(self):\n    raise OSError('a-town-key')\n",
        "OSError in line 5\n",
    ),
    "same_id_as_good": (
        f"class Pipeline:\n  id = 'good'\n{PIPE}",
        "its id good is also used by good.py",
    ),
    "valves_without_class": (f"class Pipeline:\n{PIPE}", "it has no valves"),
}


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return every file with its bytes and the time of its last change."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_broken_pipelines_do_not_affect_others(start: Start, tmp_path: Path) -> None:
    files = {name: text for name, (text, _) in BROKEN.items()}
    server = start(files | {"good": GOOD}, {"valves_without_class": {"word": "x"}})
    assert server.names == {"good"}
    assert streamed_text(server.chat("good", "hello")) == "Good: hello"
    for name, (_, reason) in BROKEN.items():
        assert f"{name}.py is left out: {reason}" in server.log, server.log
    assert "Traceback" not in server.log
    assert "a-town-key" not in server.log


def test_a_pipeline_that_hangs_is_left_out(start: Start) -> None:
    files = {"hangs": "import time\ntime.sleep(3600)\n", "other": GOOD}
    server = start(files, more=["--start-s", "3"])
    assert server.names == {"other"}
    assert "hangs.py is left out: it was not ready in" in server.log


def test_nothing_is_downloaded_moved_or_written(start: Start, tmp_path: Path) -> None:
    # `python -m pip` would run this.
    pip = tmp_path / "more/pip"
    pip.mkdir(parents=True)
    pip.joinpath("__main__.py").write_text(f"open({str(tmp_path / 'called')!r}, 'w')")
    requiring = GOOD.replace("title:", "requirements: six, attrs\ntitle:")
    server = start({"requiring": requiring, "broken": "class Pipeline\n"})
    before = tree(server.folder)
    assert server.names == {"requiring"}
    assert server.chat("requiring", "hello").is_success
    assert tree(server.folder) == before
    assert sorted(path.name for path in server.folder.iterdir()) == [
        "broken",
        "broken.py",
        "requiring",
        "requiring.py",
    ]
    assert not (tmp_path / "called").exists()


def test_valves_come_from_the_inventory(start: Start) -> None:
    text = "from pydantic import BaseModel\nclass Pipeline:\n  class Valves(BaseModel):\n"
    text += "    a: str = '1'\n    b: str = '2'\n  def __init__(self):\n"
    text += "    self.valves = self.Valves()\n  async def on_startup(self):\n"
    text += "    self.seen = self.valves.a\n  def pipe(self, **arguments):\n"
    text += "    return self.seen + self.valves.b\n"
    valves = {"set": {"a": "9"}, "wrong": {"c": "9"}, "other": {"a": 9125}}
    server = start({"set": text, "wrong": text, "other": text}, valves)
    assert streamed_text(server.chat("set", "?")) == "92"
    assert "wrong.py is left out: it has no valve c" in server.log
    reason = "pipelines_valves: a: Input should be a valid string"
    assert f"other.py is left out: {reason}\n" in server.log


@pytest.mark.parametrize("broken", [False, True])
def test_a_manifold_lists_its_models(start: Start, broken: bool) -> None:
    listed = "1 / 0" if broken else "[{'id': 'a', 'name': 'A'}]"
    text = "class Pipeline:\n  type = 'manifold'\n  name = 'Of '\n  def pipelines(self):\n"
    text += (
        f"    return {listed}\n  def pipe(self, **arguments):\n    yield arguments['model_id']\n"
    )
    server = start({"many": text, "good": GOOD})
    assert server.names == ({"good"} if broken else {"good", "many.a"})
    if broken:
        assert "many.py cannot list its models: ZeroDivisionError in line 5" in server.log
    else:
        assert streamed_text(server.chat("many.a", "?")) == "a"
        assert events(server.chat("many.a", "?"))[-1]["choices"][0]["finish_reason"] == "stop"
