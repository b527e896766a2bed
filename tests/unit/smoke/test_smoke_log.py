"""pytest's output of a failing smoke test is kept as a log, and a log must hold no secret."""

import shutil
import subprocess
import sys
from pathlib import Path

import hearth.smoke

SMOKE = Path(hearth.smoke.__file__).parent
FAILS = """
import pytest

@pytest.fixture
def key():
    return "sk-" + "a secret"

def test_it(key):
    answer = {"status": 500, "requested with": key}
    assert answer["status"] == 200
"""


def test_a_failing_test_does_not_write_down_the_key_that_it_was_given(tmp_path: Path) -> None:
    shutil.copy(SMOKE / "pytest.ini", tmp_path)
    (tmp_path / "test_it.py").write_text(FAILS)
    # A house has no plugin for asyncio.
    plain = ["-c", "pytest.ini", "--rootdir", ".", "-p", "no:asyncio"]
    command = [sys.executable, "-m", "pytest", *plain, "."]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1, done.stdout
    assert "assert 500 == 200" in done.stdout
    assert "sk-a secret" not in done.stdout
