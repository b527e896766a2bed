"""Each promise names a proof that exists: a command of ours, a script's word, or a test's file."""

import re

import pytest
import typer.main
from typer.core import TyperGroup

from hearth.cli.app import app
from tests.role_data import ROOT

PAGE = ROOT / "docs/checks.md"
CODE = re.compile(r"`([^`]+)`")
SCRIPTS = {path.name for path in (ROOT / "scripts").iterdir()}
HEAD = "| promise | proved by | details |"


def rows(text: str) -> list[list[str]]:
    """The cells of every line of the page's tables but their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] != "promise" and set(row[0]) - set("-: ")]


def exists(proof: str) -> bool:
    """Say whether a proof can be run or read here."""
    first, *words = proof.split()
    if first == "hearth":
        return known(words)
    if first.startswith("scripts/"):
        return first.removeprefix("scripts/") in SCRIPTS
    # One test of a file is named as pytest does.
    file, _, name = first.partition("::")
    if not re.match(r"(?:tests|services)/[\w/.-]+$", file):
        return False
    path = ROOT / file
    return path.is_dir() or (path.is_file() and f"def {name}" in path.read_text())


def known(words: list[str]) -> bool:
    """Say whether `hearth WORDS` is a command with these options."""
    command = typer.main.get_command(app)
    for word in words:
        if word.startswith("-"):
            if not any(word in getattr(p, "opts", ()) for p in command.params):
                return False
        elif isinstance(command, TyperGroup):
            found = command.get_command(typer.Context(command), word)
            if found is None:
                return False
            command = found
    return bool(words)


ROWS = rows(PAGE.read_text())


def test_the_page_has_promises() -> None:
    text = PAGE.read_text()
    assert len(ROWS) >= 15
    assert text.count(HEAD) == len(re.findall(r"^## ", text, re.M))


@pytest.mark.parametrize("row", ROWS, ids=[row[0][:50] for row in ROWS])
def test_a_promise_has_a_proof_that_exists_and_a_page(row: list[str]) -> None:
    assert len(row) == 3, row
    promise, proofs, page = row
    assert promise.endswith("."), promise
    named = CODE.findall(proofs)
    assert named, f"{promise} names no command"
    assert [proof for proof in named if not exists(proof)] == []
    assert "](" in page, promise


@pytest.mark.parametrize(
    "proof",
    [
        *("hearth", "hearth prove", "hearth bench nothing", "hearth verify --never"),
        *("scripts/none", "tests/lab/test_9_nothing.py", "curl -k https://llm.lan", "rm -rf /"),
        "tests/lab/test_build.py::test_that_nobody_wrote",
    ],
)
def test_an_invalid_proof_is_rejected(proof: str) -> None:
    assert not exists(proof)
