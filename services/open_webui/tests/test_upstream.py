"""What is read out of an Open WebUI that is installed."""

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


def test_every_variable_that_it_reads_is_named(program: Path) -> None:
    assert upstream.variables(program) == ["FIRST", "FOURTH", "HSTS", "SECOND", "THIRD"]


def test_scripts_of_the_page_are_named_as_a_policy_names_them(program: Path) -> None:
    # echo -n 'one()' | openssl dgst -sha256 -binary | base64
    first, second = upstream.scripts(program)
    assert first == "'sha256-HR7iaask9daLMRRskMI++QeJtjWDOjyPA6lGzYGzKW4='"
    assert second != first


def test_the_names_are_in_order_and_each_once() -> None:
    names = NAMES.read_text().split()
    assert names == sorted(set(names))
    assert {"ENABLE_PERSISTENT_CONFIG", "OPENAI_API_KEYS", "CONTENT_SECURITY_POLICY"} <= {*names}


def test_a_wrong_word_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert upstream.main(["nonsense"]) == 2
    assert "variables, scripts" in capsys.readouterr().err
