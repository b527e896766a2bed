"""The page's modules, run by Node.js: what needs no browser."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import hearth_whisper

FOLDER = Path(hearth_whisper.__file__).parent / "page"
MODULES = sorted(FOLDER.glob("*.mjs"))
TESTS = sorted((Path(__file__).parent / "modules").glob("*.test.mjs"))


def run_node(*words: str) -> subprocess.CompletedProcess[str]:
    node = shutil.which("node")
    assert node, "node is not there: apt install nodejs (scripts/test does it)"
    return subprocess.run([node, *words], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("module", MODULES, ids=lambda file: file.name)
def test_a_module_is_javascript(module: Path) -> None:
    done = run_node("--check", str(module))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("test", TESTS, ids=lambda file: file.name)
def test_a_module_keeps_its_promises(test: Path) -> None:
    done = run_node("--test", "--test-reporter=tap", str(test))
    assert done.returncode == 0, done.stdout + done.stderr
    # A file without a single test would pass as well.
    assert re.search(r"^# tests [1-9]", done.stdout, re.MULTILINE), done.stdout
