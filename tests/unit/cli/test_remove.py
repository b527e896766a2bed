"""`hearth remove` asks for confirmation, rejects services that others need, and shows a preview."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hearth import project
from hearth.cli import playbook, remote
from hearth.cli.app import app
from hearth.files import locked
from hearth.machine import runs
from hearth.project import Project
from hearth.remote.controller import Target
from hearth.remove import RemoveError, Trace, whole_house
from tests.role_data import ROOT


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Project]:
    """The reference inventory in a project of its own."""
    (tmp_path / "inventory/pipelines").mkdir(parents=True)
    for path in (ROOT / "inventory").glob("*.yml"):
        if path.name != "secrets.yml":
            (tmp_path / "inventory" / path.name).write_text(path.read_text())
    monkeypatch.setenv("HEARTH_PROJECT", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(runs, "LOCK", tmp_path / "lock")
    project.current.cache_clear()
    yield Project(tmp_path)
    project.current.cache_clear()


def call(*words: str) -> Result:
    return CliRunner().invoke(app, ["remove", *words])


@pytest.mark.usefixtures("house")
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ([], "name one service, or add --all"),
        (["whisper", "--all"], "name one service, or add --all"),
        (["login"], "is a part of this house"),
        (["wisper"], "did you mean whisper?"),
        (["open_webui"], "add --yes"),
    ],
)
def test_wrong_use_is_reported_and_exits_2(words: list[str], hint: str) -> None:
    result = call(*words)
    assert result.exit_code == 2
    assert hint in " ".join(result.output.replace("│", " ").split())


def test_a_needed_service_is_refused_and_its_users_are_named(house: Project) -> None:
    result = call("litellm", "--yes")
    assert isinstance(result.exception, RemoveError)
    assert "litellm cannot be removed: agents, pipelines, open_webui need it" in str(
        result.exception
    )
    assert not (house.inventory / "local").exists()


@pytest.mark.usefixtures("house")
@pytest.mark.parametrize(
    ("words", "fate"), [([], "keep    data in"), (["--data"], "remove  data in")]
)
def test_the_question_names_what_goes_and_what_stays(words: list[str], fate: str) -> None:
    result = call("open-webui", *words)
    assert "remove  https://chat.lan" in result.output
    assert f"{fate} /var/lib/open-webui" in result.output


def test_a_confirmed_removal_is_recorded_before_the_run(
    house: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ran(Exception):
        """The run has started."""

    def run(given: Project, _console: object, more: tuple[str, ...]) -> None:
        assert "present: false" in (house.inventory / "local/services.yml").read_text()
        assert more == ("-e", '{"instances_remove_data": ["open_webui"]}')
        raise Ran

    monkeypatch.setattr(playbook, "run", run)
    assert isinstance(call("open_webui", "--data", "--yes").exception, Ran)


def test_a_removal_from_a_remote_house_is_recorded_here_and_run_there(
    house: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (house.inventory / "local").mkdir()
    reach = "machines: {house: {reach: 'ssh://ann@house.example'}}\n"
    (house.inventory / "local/machines.yml").write_text(reach)
    commands: list[str] = []

    def converge(given: Project, there: Target, command: str) -> int:
        assert "present: false" in (given.inventory / "local/services.yml").read_text()
        assert there.host == "house.example"
        commands.append(command)
        return 1

    monkeypatch.setattr(remote, "converge", converge)
    # Without a confirmation nothing happens; the preview is the one of the remote machine.
    result = call("open_webui")
    assert result.exit_code == 2
    assert "remove  secret consumer_open_webui" in result.output
    assert "keep    data in /var/lib/open-webui" in result.output
    assert "keep    data in /var/lib/kokoro" in call("kokoro_gpu").output
    assert commands == []
    assert not (house.inventory / "local/services.yml").exists()
    assert call("open_webui", "--data", "--yes").exit_code == 1
    assert commands[0].endswith("scripts/hearth remove open_webui --data --yes")


def test_the_removal_of_a_remote_house_is_confirmed_there(
    house: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (house.inventory / "local").mkdir()
    reach = "machines: {house: {reach: 'ssh://ann@house.example'}}\n"
    (house.inventory / "local/machines.yml").write_text(reach)
    monkeypatch.setattr(sys, "argv", ["hearth", "remove", "--all"])
    monkeypatch.setattr(remote, "run", lambda project, reach, words: 40 + len(words))
    assert call("--all").exit_code == 42


def plan(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    removed: list[str] = []
    traces = [Trace("the one", lambda: removed.append("the one"))]
    monkeypatch.setattr(
        whole_house, "plan_removal", lambda *_: whole_house.RemovalPlan(traces, ["the data"])
    )
    return removed


@pytest.mark.usefixtures("house")
def test_the_whole_house_is_previewed_and_removed_after_a_confirmation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    removed = plan(monkeypatch)
    result = call("--all")
    assert result.exit_code == 2
    assert removed == []
    assert "remove  the one" in result.output
    assert "keep    the data" in result.output
    monkeypatch.setenv(runs.MARK, "")
    assert call("--all", "--yes").exit_code == 0
    assert removed == ["the one"]


def test_all_is_refused_while_another_run_is_active(
    house: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = plan(monkeypatch)
    with locked(runs.LOCK, who=runs.this_run(["hearth", "up"]).dump()):
        result = call("--all", "--yes")
    assert "another run is active" in str(result.exception)
    assert "hearth up" in str(result.exception)
    assert removed == []
