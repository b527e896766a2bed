"""`hearth kokoro-patch`: preview, confirmation, changes and take-back; exit codes and JSON."""

import io
import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from hearth.cli import kokoro_patch
from hearth.cli.app import app
from hearth.machine import engines
from hearth_kokoro_patch import STEPS, PatchError, Plan, state
from hearth_kokoro_patch.containers import Container
from hearth_kokoro_patch.planning import FILES

SHAPE = Path(__file__).parents[3] / "services/kokoro_patch/tests/shapes/v0.2.1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        target = tmp_path / "tts" / name
        target.parent.mkdir(parents=True)
        shutil.copy(SHAPE / f"{target.stem}.txt", target)
    return tmp_path / "tts"


def call(*words: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["kokoro-patch", *words], input=answer)


def test_the_help_names_every_step() -> None:
    text = " ".join(call("--help").output.split())
    assert all(step in text for step in STEPS)


def test_json_alone_only_looks(folder: Path) -> None:
    result = call("--path", str(folder), "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert (document["changed"], document["files"], document["steps"]) == (
        False,
        list(FILES),
        list(STEPS),
    )
    assert "await asyncio.sleep(0)" in document["diff"]
    assert state(folder) == "none"


def test_a_patch_shows_its_diff_and_is_taken_back(folder: Path) -> None:
    before = {name: (folder / name).read_bytes() for name in FILES}
    result = call("--path", str(folder), "--yes", "--without", "threads", "--without", "player")
    assert result.exit_code == 0
    assert "+++ b/api/src/inference/kokoro_v1.py" in result.stdout
    assert "_HEARTH_WORKER" not in result.stdout
    assert "AudioService" not in result.stdout
    assert "done: restart the server" in result.stderr
    assert state(folder) == "applied"
    again = call("--path", str(folder), "--yes", "--without", "threads", "--without", "player")
    assert (again.exit_code, again.stdout) == (0, "")
    assert "nothing to do: these steps are applied" in again.stderr
    back = json.loads(call("--path", str(folder), "--take-back", "--yes", "--json").stdout)
    assert (back["changed"], back["steps"]) == (True, [])
    assert {name: (folder / name).read_bytes() for name in FILES} == before


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "code", "after"), [("y", 0, "applied"), ("n", 1, "none")])
def test_a_person_confirms_the_change(
    folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, after: str
) -> None:
    questions = []

    def confirm(question: str, err: bool) -> bool:
        questions.append(question)
        return answer == "y"

    monkeypatch.setattr(typer, "confirm", confirm)
    monkeypatch.setattr(sys, "stdin", Terminal())
    with pytest.raises(typer.Exit) as end:
        kokoro_patch.patch_server(folder)
    assert (end.value.exit_code, state(folder)) == (code, after)
    assert questions == ["Change these files?"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ((), "add --path DIR or --container NAME"),
        (("--path", ".", "--without", "thread", "--yes"), "did you mean threads?"),
        (("--path", ".", "--without", "threads", "--take-back", "--yes"), "leave out --without"),
        (("--path", "."), "Hearth cannot ask: add --yes"),
        (("--container", "x", "--engine", "lxd", "--yes"), "'lxd' is not one of"),
    ],
)
def test_wrong_use_is_2(words: tuple[str, ...], hint: str) -> None:
    result = call(*words)
    assert result.exit_code == 2
    assert hint in " ".join(result.output.replace("│", " ").split())


def test_a_refusal_is_one_line_and_1(tmp_path: Path) -> None:
    result = call("--path", str(tmp_path), "--yes")
    assert result.exit_code == 1
    reason = str(result.exception)
    assert "holds no Kokoro-FastAPI: api/src/inference/kokoro_v1.py is missing" in reason
    assert len(reason.splitlines()) == 1


def test_a_container_is_patched_through_a_copy(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[Plan] = []
    found = Container(engines.Incus(), "speech", "/opt/tts")
    searches = []

    def find(name: str, known: Iterable[engines.Engine], root: str) -> Container:
        searches.append((name, *(one.name for one in known), root))
        return found

    def copy_out(self: Container, copy: Path) -> None:
        shutil.copytree(folder, copy, dirs_exist_ok=True)

    monkeypatch.setattr(kokoro_patch, "find", find)
    monkeypatch.setattr(Container, "copy_out", copy_out)
    monkeypatch.setattr(Container, "copy_in", lambda self, plan: copied.append(plan))
    words = ("--container", "speech", "--path", "/opt/tts", "--engine", "incus")
    looked = json.loads(call(*words, "--json").stdout)
    assert (looked["changed"], looked["restart"], copied) == (False, "incus restart speech", [])
    result = call(*words, "--yes")
    assert result.exit_code == 0
    assert "run `incus restart speech` now; a newly created container will not" in result.stderr
    assert [plan.files for plan in copied] == [tuple(FILES)]
    assert set(searches) == {("speech", "incus", "/opt/tts")}
    shutil.rmtree(folder / "api")
    refused = call(*words, "--yes")
    assert refused.exit_code == 1
    assert "speech:/opt/tts: holds no Kokoro-FastAPI" in str(refused.exception)


def test_what_a_killed_take_back_left_in_a_container_goes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("--path", str(folder), "--yes").exit_code == 0
    for name in FILES:
        shutil.copy(SHAPE / f"{Path(name).stem}.txt", folder / name)
    copied: list[Plan] = []

    def copy_out(self: Container, copy: Path) -> None:
        shutil.copytree(folder, copy, dirs_exist_ok=True)

    monkeypatch.setattr(kokoro_patch, "find", lambda *words: Container(engines.podman(), "speech"))
    monkeypatch.setattr(Container, "copy_out", copy_out)
    monkeypatch.setattr(Container, "copy_in", lambda self, plan: copied.append(plan))
    words = ("--container", "speech", "--take-back")
    assert call(*words, "--json").exit_code == 0
    assert copied == [], "--json alone only looks"
    result = call(*words, "--yes")
    assert "it is unpatched; .hearth-patch is removed" in result.stderr
    assert [(plan.files, (plan.folder / ".hearth-patch").exists()) for plan in copied] == [
        ((), False)
    ]


def test_a_mounted_checkout_is_patched_where_it_lies(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Container(
        engines.docker(), "speech", mounted="/app/api is mounted from /home/me/tts/api"
    )

    def copy_out(self: Container, copy: Path) -> None:
        shutil.copytree(folder, copy, dirs_exist_ok=True)

    monkeypatch.setattr(kokoro_patch, "find", lambda *words: found)
    monkeypatch.setattr(Container, "copy_out", copy_out)
    refused = call("--container", "speech", "--yes")
    assert refused.exit_code == 1
    assert "speech: /app/api is mounted from /home/me/tts/api: use --path" in str(refused.exception)
    # A patch that was applied through the container can still be taken back.
    assert call("--container", "speech", "--take-back", "--yes").exit_code == 0


def test_json_alone_keeps_even_what_a_killed_run_left(folder: Path) -> None:
    assert call("--path", str(folder), "--yes").exit_code == 0
    for name in FILES:
        shutil.copy(SHAPE / f"{Path(name).stem}.txt", folder / name)
    assert call("--path", str(folder), "--take-back", "--json").exit_code == 0
    assert (folder / ".hearth-patch").is_dir()
    assert call("--path", str(folder), "--take-back", "--yes").exit_code == 0
    assert not (folder / ".hearth-patch").exists()


def test_an_error_of_the_engine_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(*words: object) -> Container:
        raise PatchError("no container 'x': podman: no such container")

    monkeypatch.setattr(kokoro_patch, "find", find)
    result = call("--container", "x", "--yes")
    assert (result.exit_code, result.stdout) == (1, "")
    assert str(result.exception) == "no container 'x': podman: no such container"
