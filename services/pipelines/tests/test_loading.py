"""A broken pipeline is left out and said; the others answer, and the folder stays as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import ANSWERS, Start, events, words

GOOD = ANSWERS.format(words="Good")
PIPE = "  def pipe(self, **asked):\n    return 'never'\n"
BROKEN = {
    "syntax": ("class Pipeline\n", "line 1: expected ':'"),
    "import_of_nothing": (
        f"import nowhere_to_be_found\nclass Pipeline:\n{PIPE}",
        "ModuleNotFoundError in line 1: there is no nowhere_to_be_found",
    ),
    "raises": (
        "class Pipeline:\n  def __init__(self):\n    1 / 0\n",
        "ZeroDivisionError in line 3",
    ),
    "no_class": ("x = 1\n", "it has no class Pipeline"),
    "no_pipe": ("class Pipeline:\n  pass\n", "class Pipeline has no pipe"),
    "asynchronous": ("class Pipeline:\n  async def pipe(self):\n    pass\n", "pipe is async"),
    "type_of_its_own": (
        f"class Pipeline:\n  type = 'pipe'\n{PIPE}",
        "type is 'pipe': write filter",
    ),
    "ends": ("import sys\nsys.exit(3)\n", "it wants to end the server"),
    "starts_badly": (
        f"class Pipeline:\n{PIPE}  async def on_startup(self):\n    raise OSError('a-town-key')\n",
        "OSError in line 5\n",
    ),
    "twin_of_good": (f"class Pipeline:\n  id = 'good'\n{PIPE}", "its id good is also good.py's"),
    "valves_of_none": (f"class Pipeline:\n{PIPE}", "it has no valves"),
}


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return every file with its bytes and the time of its last change."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_broken_ones_take_nobody_along(start: Start, tmp_path: Path) -> None:
    files = {name: text for name, (text, _) in BROKEN.items()}
    server = start(files | {"good": GOOD}, {"valves_of_none": {"word": "x"}})
    assert server.names == {"good"}
    assert words(server.chat("good", "hello")) == "Good: hello"
    for name, (_, reason) in BROKEN.items():
        assert f"{name}.py is left out: {reason}" in server.log, server.log
    assert "Traceback" not in server.log
    assert "a-town-key" not in server.log


def test_one_that_hangs_is_not_waited_for(start: Start) -> None:
    files = {"hangs": "import time\ntime.sleep(3600)\n", "zealous": GOOD}
    server = start(files, more=["--start-s", "3"])
    assert server.names == {"zealous"}
    assert "hangs.py is left out: it was not ready in" in server.log


def test_nothing_is_fetched_moved_or_written(start: Start, tmp_path: Path) -> None:
    # What `python -m pip` would run, if anybody did.
    pip = tmp_path / "more/pip"
    pip.mkdir(parents=True)
    pip.joinpath("__main__.py").write_text(f"open({str(tmp_path / 'called')!r}, 'w')")
    asking = GOOD.replace("title:", "requirements: six, attrs\ntitle:")
    server = start({"asking": asking, "broken": "class Pipeline\n"})
    before = tree(server.folder)
    assert server.names == {"asking"}
    assert server.chat("asking", "hello").is_success
    assert tree(server.folder) == before
    assert sorted(path.name for path in server.folder.iterdir()) == [
        "asking",
        "asking.py",
        "broken",
        "broken.py",
    ]
    assert not (tmp_path / "called").exists()


def test_valves_are_what_the_inventory_says(start: Start) -> None:
    text = "from pydantic import BaseModel\nclass Pipeline:\n  class Valves(BaseModel):\n"
    text += "    a: str = '1'\n    b: str = '2'\n  def __init__(self):\n"
    text += "    self.valves = self.Valves()\n  async def on_startup(self):\n"
    text += "    self.seen = self.valves.a\n  def pipe(self, **asked):\n"
    text += "    return self.seen + self.valves.b\n"
    valves = {"set": {"a": "9"}, "wrong": {"c": "9"}, "other": {"a": 9125}}
    server = start({"set": text, "wrong": text, "other": text}, valves)
    assert words(server.chat("set", "?")) == "92"
    assert "wrong.py is left out: it has no valve c" in server.log
    reason = "pipelines_valves: a: Input should be a valid string"
    assert f"other.py is left out: {reason}\n" in server.log


@pytest.mark.parametrize("broken", [False, True])
def test_a_manifold_lists_models_of_its_own(start: Start, broken: bool) -> None:
    listed = "1 / 0" if broken else "[{'id': 'a', 'name': 'A'}]"
    text = "class Pipeline:\n  type = 'manifold'\n  name = 'Of '\n  def pipelines(self):\n"
    text += f"    return {listed}\n  def pipe(self, **asked):\n    yield asked['model_id']\n"
    server = start({"many": text, "good": GOOD})
    assert server.names == ({"good"} if broken else {"good", "many.a"})
    if broken:
        assert "many.py lists no models: ZeroDivisionError in line 5" in server.log
    else:
        assert words(server.chat("many.a", "?")) == "a"
        assert events(server.chat("many.a", "?"))[-1]["choices"][0]["finish_reason"] == "stop"
