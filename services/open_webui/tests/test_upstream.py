"""The inspection of an installed Open WebUI."""

from __future__ import annotations

from pathlib import Path

import pytest

from hearth_open_webui import upstream

NAMES = Path(upstream.__file__).parent / "names.txt"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "env.py").write_text(
        "A = os.getenv('FIRST', 'x')\nB = os.environ.get(\n    'SECOND'\n)\n"
        "C = os.environ['THIRD']\nD = _int_env('FOURTH', 1)\nE = os.getenv(name)\n"
    )
    (tmp_path / "security_headers.py").write_text("x = {\n        'HSTS': set_hsts,\n}\n")
    (tmp_path / "frontend").mkdir()
    page = "<script src='/a.js'></script><script>one()</script>\n<script>\ntwo()\n</script>"
    (tmp_path / "frontend" / "index.html").write_text(page)
    return tmp_path


def test_finds_every_variable_that_the_program_reads(program: Path) -> None:
    assert upstream.variables(program) == ["FIRST", "FOURTH", "HSTS", "SECOND", "THIRD"]


def test_inline_scripts_are_listed_as_policy_hashes(program: Path) -> None:
    # echo -n 'one()' | openssl dgst -sha256 -binary | base64
    first, second = upstream.scripts(program)
    assert first == "'sha256-HR7iaask9daLMRRskMI++QeJtjWDOjyPA6lGzYGzKW4='"
    assert second != first


def test_names_are_sorted_and_unique() -> None:
    names = NAMES.read_text().split()
    assert names == sorted(set(names))
    assert {"ENABLE_PERSISTENT_CONFIG", "OPENAI_API_KEYS", "CONTENT_SECURITY_POLICY"} <= {*names}


def test_an_unknown_command_prints_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert upstream.main(["nonsense"]) == 2
    assert "variables | scripts" in capsys.readouterr().err
