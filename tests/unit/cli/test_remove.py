"""`hearth remove` asks first, refuses what cannot go, and changes nothing until then."""

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
    ("words", "said"),
    [
        ([], "name one service, or add --all"),
        (["whisper", "--all"], "name one service, or add --all"),
        (["login"], "is a part of every house"),
        (["wisper"], "did you mean whisper?"),
        (["open_webui"], "add --yes"),
    ],
)
def test_wrong_use_is_reported_and_exits_2(words: list[str], said: str) -> None:
    done = call(*words)
    assert done.exit_code == 2
    assert said in " ".join(done.output.replace("│", " ").split())


def test_what_others_need_is_refused_and_says_who(house: Project) -> None:
    done = call("litellm", "--yes")
    assert isinstance(done.exception, RemoveError)
    assert "litellm cannot be removed: pipelines, open_webui need it" in str(done.exception)
    assert not (house.inventory / "local").exists()


@pytest.mark.usefixtures("house")
@pytest.mark.parametrize(
    ("words", "fate"), [([], "stays   data in"), (["--data"], "goes    data in")]
)
def test_the_question_names_what_goes_and_what_stays(words: list[str], fate: str) -> None:
    done = call("open-webui", *words)
    assert "goes    https://chat.lan" in done.output
    assert f"{fate} /var/lib/open-webui" in done.output


def test_a_yes_is_written_down_before_the_run(
    house: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ran(Exception):
        """The run began."""

    def run(given: Project, _console: object, more: tuple[str, ...]) -> None:
        assert "present: false" in (house.inventory / "local/services.yml").read_text()
        assert more == ("-e", '{"instances_remove_data": ["open_webui"]}')
        raise Ran

    monkeypatch.setattr(playbook, "run", run)
    assert isinstance(call("open_webui", "--data", "--yes").exception, Ran)


def test_for_a_house_elsewhere_it_is_written_down_here_and_done_there(
    house: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (house.inventory / "local").mkdir()
    reach = "machines: {house: {reach: 'ssh://ann@house.example'}}\n"
    (house.inventory / "local/machines.yml").write_text(reach)
    asked: list[str] = []

    def converge(given: Project, there: Target, command: str) -> int:
        assert "present: false" in (given.inventory / "local/services.yml").read_text()
        assert there.host == "house.example"
        asked.append(command)
        return 1

    monkeypatch.setattr(remote, "converge", converge)
    # Not before it was asked about, in the words that would be said there.
    done = call("open_webui")
    assert done.exit_code == 2
    assert "goes    secret consumer_open_webui" in done.output
    assert "stays   data in /var/lib/open-webui" in done.output
    assert "stays   data in /var/lib/kokoro" in call("kokoro_gpu").output
    assert asked == []
    assert not (house.inventory / "local/services.yml").exists()
    assert call("open_webui", "--data", "--yes").exit_code == 1
    assert asked[0].endswith("scripts/hearth remove open_webui --data --yes")


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
    gone: list[str] = []
    traces = [Trace("the one", lambda: gone.append("the one"))]
    monkeypatch.setattr(
        whole_house, "plan_removal", lambda *_: whole_house.Plan(traces, ["the data"])
    )
    return gone


@pytest.mark.usefixtures("house")
def test_all_shows_both_and_goes_after_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = plan(monkeypatch)
    done = call("--all")
    assert done.exit_code == 2
    assert gone == []
    assert "goes    the one" in done.output
    assert "stays   the data" in done.output
    monkeypatch.setenv(runs.MARK, "")
    assert call("--all", "--yes").exit_code == 0
    assert gone == ["the one"]


def test_all_is_refused_while_another_run_is_active(
    house: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = plan(monkeypatch)
    with locked(runs.LOCK, who=runs.this_run(["hearth", "up"]).dump()):
        done = call("--all", "--yes")
    assert "another run is active" in str(done.exception)
    assert "hearth up" in str(done.exception)
    assert gone == []
