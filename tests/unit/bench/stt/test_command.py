"""`hearth bench stt` as a person types it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from hearth.bench.stt import run
from hearth.cli import bench
from tests.documents import shipped_house
from tests.unit.bench.stt.scripted import Scripted
from tests.unit.bench.stt.test_bench import PLAN

pytestmark = pytest.mark.usefixtures("short")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "QUICK", replace(PLAN, quick=True, runs=1))


def measure(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(bench.app, ["stt", "--quick", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_everything_is_written(scripted: Scripted, tmp_path: Path) -> None:
    code, output, _ = measure(
        *("--server", scripted.at("steady"), "--out", str(tmp_path / "new"), "--only", "live")
    )
    assert code in (0, 1)
    assert "The baseline is not measured" in output
    report = json.loads((tmp_path / "new" / "bench-stt.json").read_text())
    assert report["servers"][0]["name"] == "server"
    assert (tmp_path / "new" / "bench-stt.md").read_text().startswith("# Transcription, measured")
    assert (tmp_path / "new" / "bench-stt.png").stat().st_size > 1000


def test_without_matplotlib_all_but_the_chart_is_written(
    scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hearth.bench.chart.available", lambda: False)
    out = tmp_path / "new"
    code, output, error = measure(
        *("--server", scripted.at("steady"), "--out", str(out), "--only", "live")
    )
    assert code in (0, 1)
    assert "The baseline is not measured" in output
    assert {path.name for path in out.iterdir()} == {"bench-stt.json", "bench-stt.md"}
    (line,) = (line for line in error.splitlines() if "chart" in line)
    assert "requirements/charts.txt" in line


def test_json_is_json_and_another_server_gets_its_own_requests(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_KEY", "sesame")
    other = ("--against", scripted.at("deaf"), "--against-model", "large", "--only", "file")
    _, output, _ = measure(
        *("--server", scripted.at("steady"), *other, "--against-key-env", "OTHER_KEY", "--json")
    )
    assert [server["name"] for server in json.loads(output)["servers"]] == ["server", "other"]
    assert {form["model"] for form in scripted.forms} == {"whisper-1", "large"}


def test_a_server_that_fails_ends_with_one(scripted: Scripted) -> None:
    code, output, _ = measure("--server", scripted.at("erring"), "--only", "live")
    assert code == 1
    assert "no model" in output


@pytest.fixture
def house(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """A house with a listening server; nothing is needed of it but its name and its address."""
    ours = shipped_house().services["kokoro"]
    theirs = replace(
        ours, name="whisper", role="whisper", offers=("transcription",), url=scripted.at("steady")
    )
    house = SimpleNamespace(services={"kokoro": ours, "whisper": theirs}, parts={})
    monkeypatch.setattr(bench, "current", lambda: SimpleNamespace(house=lambda: house))


@pytest.mark.usefixtures("house")
def test_a_service_of_the_house_is_addressed_by_its_name(scripted: Scripted) -> None:
    _, output, _ = measure("--only", "wer", "--json")
    assert json.loads(output)["servers"][0]["url"] == scripted.at("steady")
    code, _, error = measure("--server", "kokoro")
    assert (code, "kokoro offers no transcription" in " ".join(error.split())) == (2, True)
    code, _, error = measure("--against", "whisper")
    assert (code, "name another service" in error) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--key-env", "NO_SUCH_VARIABLE"), "NO_SUCH_VARIABLE is not set"),
        (("--only", "lives"), "no part 'lives': did you mean live?"),
        (("--out", "/dev/null/all"), "/dev/null/all: Not a directory"),
    ],
)
def test_wrong_use_is_reported_before_any_request(
    scripted: Scripted, arguments: tuple[str, str], message: str
) -> None:
    code, _, error = measure("--server", scripted.at("steady"), *arguments)
    assert code == 2
    assert message in " ".join(error.replace("│", " ").split())
    assert scripted.files == []
