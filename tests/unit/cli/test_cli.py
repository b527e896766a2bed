"""The command line: exit codes, help with examples, JSON, and secrets that stay secret."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import hearth
from hearth import project
from hearth.cli.__main__ import main
from hearth.cli.app import app
from hearth.cli.logs import _complete
from hearth.cli.secret import show_secret
from hearth.machine import engine, systemd
from hearth.project import Project

ROOT = Path(__file__).parents[3]
COMMANDS = [
    *(["check"], ["up"], ["verify"], ["status"], ["logs"], ["shell"], ["models"], ["lock"]),
    *(["secret", "list"], ["secret", "show"], ["secret", "set"], ["bench", "llm"], ["agents"]),
]


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Project]:
    """The reference inventory in a project of its own, with its own vault."""
    (tmp_path / "inventory").mkdir()
    for path in (ROOT / "inventory").glob("*.yml"):
        if path.name != "secrets.yml":
            (tmp_path / "inventory" / path.name).write_text(path.read_text())
    monkeypatch.setenv("HEARTH_PROJECT", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    project.current.cache_clear()
    yield Project(tmp_path)
    project.current.cache_clear()


def call(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=stdin)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_shows_an_example(words: list[str]) -> None:
    result = call(*words, "--help")
    assert result.exit_code == 0
    assert "Example: " in result.output


def test_check_of_the_reference_inventory_is_fine(house: Project) -> None:
    result = call("check", "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["good"] is True
    assert any("openrouter_api_key" in note for note in document["notes"])


def test_lock_names_the_nearest_source(house: Project) -> None:
    result = call("lock", "olama")
    assert result.exit_code == 2
    assert "no source 'olama': did you mean ollama?" in " ".join(result.output.split())


def test_check_prints_every_problem_and_exits_1(house: Project) -> None:
    path = house.inventory / "services.yml"
    path.write_text(path.read_text().replace("port: 11434", "prot: 11434"))
    result = call("check")
    assert result.exit_code == 1
    assert "inventory/services.yml:" in str(result.exception)
    assert json.loads(call("check", "--json").stdout)["good"] is False


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["logs", "olama"], "did you mean ollama?"),
        (["shell", "litelm"], "did you mean litellm?"),
        (["shell", "caddy"], "runs on this machine itself"),
        (["secret", "show", "house_pasword", "--plain"], "did you mean house_password?"),
        (["secret", "set", "nonsense"], "known: "),
        (["lock", "olama"], "did you mean ollama?"),
        (["nonsense"], "No such command"),
        (["logs"], "Missing argument"),
    ],
    ids=" ".join,
)
def test_wrong_use_exits_2_and_prints_the_usage(
    house: Project, words: list[str], hint: str
) -> None:
    result = call(*words)
    assert result.exit_code == 2
    assert hint in " ".join(result.output.replace("│", " ").split())


def test_a_secret_is_shown_on_a_terminal_only(house: Project) -> None:
    house.vault.ensure({"house_password": "random"})
    value = house.vault.get("house_password")
    piped = call("secret", "show", "house_password")
    assert piped.exit_code == 2
    assert value not in piped.output
    plain = call("secret", "show", "house_password", "--plain")
    assert (plain.exit_code, plain.stdout) == (0, value + "\n")


def test_a_secret_on_a_terminal(
    house: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    house.vault.set("openrouter_api_key", "sk-[bold]-0123456789")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    show_secret("openrouter_api_key", plain=False)
    assert "sk-[bold]-0123456789" in capsys.readouterr().out


def test_a_secret_comes_from_standard_input(house: Project) -> None:
    result = call("secret", "set", "openrouter_api_key", stdin="sk-or-0123456789ab\n")
    assert result.exit_code == 0
    assert "sk-or-0123456789ab" not in result.output
    assert house.vault.get("openrouter_api_key") == "sk-or-0123456789ab"
    listed = {
        row["name"]: row["set"] for row in json.loads(call("secret", "list", "--json").stdout)
    }
    assert listed["openrouter_api_key"] is True
    assert listed["house_password"] is False


def test_no_command_takes_a_secret_as_a_word(house: Project) -> None:
    assert call("secret", "set", "openrouter_api_key", "sk-or-0123456789ab").exit_code == 2


def test_logs_come_from_the_right_place(house: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str | None, str, int]] = []

    def journal(instance: str | None, unit: str, lines: int) -> list[str]:
        calls.append((instance, unit, lines))
        return ["12:00 [ready]"]

    monkeypatch.setattr(systemd, "journal", journal)
    assert call("logs", "ollama", "-n", "5").stdout == "12:00 [ready]\n"
    assert call("logs", "caddy").exit_code == 0
    assert calls[0] == ("ollama", "ollama.service", 5)
    assert calls[1][0] is None


def test_an_error_of_ours_is_one_line_and_exit_1(
    house: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def journal(*_: object) -> list[str]:
        raise engine.EngineError("ollama: no such [instance]: run `hearth up` to make it")

    monkeypatch.setattr(systemd, "journal", journal)
    monkeypatch.setattr("sys.argv", ["hearth", "logs", "ollama"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 1
    assert (
        capsys.readouterr().err == "error: ollama: no such [instance]: run `hearth up` to make it\n"
    )


def test_a_bug_of_ours_is_not_hidden(house: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def journal(*_: object) -> list[str]:
        raise ZeroDivisionError

    monkeypatch.setattr(systemd, "journal", journal)
    monkeypatch.setattr("sys.argv", ["hearth", "logs", "ollama"])
    with pytest.raises(ZeroDivisionError):
        main()


def test_services_complete(house: Project) -> None:
    assert _complete("o") == ["ollama", "open_webui"]
    assert set(_complete("")) >= {"ollama", "litellm", "caddy"}


def test_the_lab_needs_a_checkout(
    house: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["hearth", "lab", "create", "try", "--size", "8G"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 1
    assert capsys.readouterr().err == (
        f"error: {house.root}: no lab tool here: clone Hearth with git and run its scripts/hearth, "
        "or set HEARTH_PROJECT to such a clone\n"
    )


def test_the_lab_tool_of_the_checkout_gets_every_argument(
    house: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (house.root / "tests/lab_machine").mkdir(parents=True)
    started: list[list[str]] = []
    monkeypatch.setattr("os.chdir", lambda folder: started.append([str(folder)]))
    monkeypatch.setattr("os.execv", lambda _, argv: started.append(argv[1:]))
    call("lab", "shell", "try", "--", "ls", "--help")
    assert started == [
        [str(house.root)],
        ["-m", "tests.lab_machine", "shell", "try", "--", "ls", "--help"],
    ]


def test_the_command_runs_beside_a_clone_of_its_own_name(tmp_path: Path) -> None:
    """As a newcomer does it: `git clone … hearth`, and then a command from the folder around it."""
    root = Path(__file__).parents[3]
    (tmp_path / "hearth").symlink_to(root)
    argv = [str(root / "scripts/hearth"), "--version"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == hearth.__version__, done.stderr
