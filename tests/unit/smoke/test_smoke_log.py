"""What pytest writes of a smoke test that fails is kept as a log, and a log holds no secret."""

import shutil
import subprocess
import sys
from pathlib import Path

SMOKE = Path(__file__).parents[2] / "smoke"
FAILS = """
import pytest

@pytest.fixture
def key():
    return "sk-" + "a secret"

def test_it(key):
    answer = {"status": 500, "asked with": key}
    assert answer["status"] == 200
"""


def test_a_failing_test_does_not_write_down_the_key_that_it_was_given(tmp_path: Path) -> None:
    shutil.copy(SMOKE / "pytest.ini", tmp_path)
    (tmp_path / "test_it.py").write_text(FAILS)
    # A house has no plugin for asyncio.
    plain = ["-c", "pytest.ini", "--rootdir", ".", "-p", "no:asyncio"]
    command = [sys.executable, "-m", "pytest", *plain, "."]
    said = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert said.returncode == 1, said.stdout
    assert "assert 500 == 200" in said.stdout
    assert "sk-a secret" not in said.stdout
