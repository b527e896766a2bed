"""`hearth sandbox` hands over words, exit codes and files as they are."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hearth.cli import sandbox as cli
from hearth.cli.sandbox import app
from hearth.sandbox import command, lifecycle
from hearth.sandbox.command import Ran
from hearth.sandbox.difference import Change, Difference
from tests.unit.machine.samples import HOUSE
from tests.unit.sandbox.fake_incus import Incus


@pytest.fixture(autouse=True)
def house(incus: Incus, monkeypatch: pytest.MonkeyPatch) -> None:
    incus.add("ollama")
    incus.machines["ollama"].config["user.hearth"] = "1"

    class Here:
        def house(self) -> Any:
            return HOUSE

    monkeypatch.setattr(cli, "current", Here)


def hearth(*words: str, given: str | bytes | None = None, code: int = 0) -> str:
    done = CliRunner().invoke(app, words, input=given)
    assert done.exit_code == code, done.output
    return done.stdout


def test_one_is_created_listed_and_deleted(incus: Incus) -> None:
    made = json.loads(hearth("create", "ollama", "--seconds", "60", "--json"))
    assert made["service"] == "ollama"
    assert made["ends"] - made["made"] == 60
    assert made["ready_s"] < 5
    assert made["name"] in hearth("list")
    assert [one["name"] for one in json.loads(hearth("list", "--json"))] == [made["name"]]
    hearth("delete", made["name"])
    assert hearth("list") == "no sandboxes\n"


def test_an_empty_one_and_a_copy_exclude_each_other(incus: Incus) -> None:
    for words in ((), ("ollama", "--empty"), ("--empty", "--data"), ("dnsmasq",), ("nobody",)):
        hearth("create", *words, code=2)
    hearth("create", "--empty")
    assert len(lifecycle.list_sandboxes()) == 1


def test_words_and_input_of_a_command_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def run(name: str, argv: list[str], *, timeout_s: float, stdin: bytes) -> Ran:
        given.append((name, argv, timeout_s, stdin))
        return Ran(7, "out\n", "err\n", 0.1)

    monkeypatch.setattr(command, "run_command", run)
    words = ("run", "--timeout", "9", "sb-00000001", "--", "ls", "-l", "--json", "a b")
    assert hearth(*words, given="in", code=7) == "out\n"
    assert given == [("sb-00000001", ["ls", "-l", "--json", "a b"], 9, b"in")]
    shown = json.loads(hearth("run", "--json", "sb-00000001", "--", "ls", code=1))
    assert shown["exit_code"] == 7


def test_a_file_goes_in_and_comes_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files: dict[str, str] = {}
    monkeypatch.setattr(command, "write_file", lambda name, path, text: files.update({path: text}))
    monkeypatch.setattr(command, "read_file", lambda name, path: files[path].encode())
    (tmp_path / "new").write_text("ünï\n")
    hearth("write", "sb-00000001", "/a", "--from", str(tmp_path / "new"))
    hearth("write", "sb-00000001", "/b", given="text")
    assert files == {"/a": "ünï\n", "/b": "text"}
    assert hearth("read", "sb-00000001", "/a") == "ünï\n"


def test_changes_are_shown_with_their_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Difference([Change("changed", "/etc/[red]x", "content", "-a\n+b\n")], ["the rest: why"])
    monkeypatch.setattr(cli, "compare_sandbox", lambda name: found)
    shown = hearth("diff", "sb-00000001")
    assert shown.splitlines() == [
        "changed /etc/[red]x  (content)",
        "        -a",
        "        +b",
        "not compared: the rest: why",
    ]
    assert (
        json.loads(hearth("diff", "sb-00000001", "--json"))["changes"][0]["path"] == "/etc/[red]x"
    )
