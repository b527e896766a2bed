"""`hearth bench tts` as a person types it."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from hearth.bench.tts import run
from hearth.cli import bench
from hearth.cli.__main__ import main
from tests.documents import shipped_house
from tests.ports import kept_port
from tests.unit.bench.tts.scripted import Scripted

UPSTREAM = "kokoro_fastapi"
SMALL = run.TtsPlan(
    quick=True,
    runs=1,
    cell_runs=1,
    long_characters=200,
    long_runs=1,
    clients=(),
    formats=("pcm",),
    voices=("af_heart",),
)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "QUICK", SMALL)


def hearth(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(bench.app, ["tts", "--quick", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_what_buffers_ends_with_one_and_everything_is_written(
    brisk: Scripted, tmp_path: Path
) -> None:
    code, output, _ = hearth("--server", brisk.at("buffering"), "--out", str(tmp_path / "new"))
    assert code == 1
    assert "not reached" in output
    report = json.loads((tmp_path / "new" / "bench-tts.json").read_text())
    assert report["servers"][0]["name"] == "server"
    assert (tmp_path / "new" / "bench-tts.md").read_text().startswith("# Speech, measured")
    assert (tmp_path / "new" / "bench-tts.png").stat().st_size > 1000


def test_json_is_json_and_another_server_gets_its_own_requests(
    brisk: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_KEY", "sesame")
    other = ("--against", brisk.at("steady"), "--against-model", "tts-1")
    more = ("--against-voice", "alloy", "--against-key-env", "OTHER_KEY", "--json")
    _, output, _ = hearth("--server", brisk.at("buffering"), *other, *more)
    assert [server["name"] for server in json.loads(output)["servers"]] == ["server", "other"]
    asked = {(body["model"], body["voice"]) for body in brisk.bodies}
    assert asked == {("kokoro", "af_heart"), ("tts-1", "alloy")}
    keys = {header.get("authorization") for header in brisk.headers}
    assert keys == {None, "Bearer sesame"}


@pytest.fixture
def house(brisk: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """A house in which upstream's server is on."""
    ours = shipped_house().services["kokoro"]
    url = brisk.at("buffering")
    theirs = replace(ours, name=UPSTREAM, role=UPSTREAM, instance="kokoro-fastapi", url=url)
    house = SimpleNamespace(services={"kokoro": ours, UPSTREAM: theirs}, parts={})
    monkeypatch.setattr(bench, "current", lambda: SimpleNamespace(house=lambda: house))


@pytest.mark.usefixtures("house")
def test_a_service_of_the_house_is_compared_with_by_its_name(brisk: Scripted) -> None:
    _, output, _ = hearth("--server", brisk.at("steady"), "--against", "kokoro-fastapi")
    (head,) = (line for line in output.splitlines() if line.startswith("medians"))
    assert head.split() == ["medians", "server", "kokoro-fastapi"]
    code, _, error = hearth("--server", brisk.at("steady"), "--against", "kokoro_fast")
    assert (code, "kokoro_fastapi" in error) == (2, True)


def test_a_part_of_it_alone_is_measured(brisk: Scripted) -> None:
    _, output, _ = hearth("--server", brisk.at("steady"), "--only", "paragraph", "--json")
    (server,) = json.loads(output)["servers"]
    assert {figures["case"]["what"] for figures in server["figures"]} == {"paragraph"}


@pytest.mark.usefixtures("house")
def test_nothing_is_compared_with_itself(brisk: Scripted) -> None:
    code, _, error = hearth("--against", "kokoro")
    assert (code, "name another service" in error) == (2, True)
    assert brisk.bodies == []


def test_a_missing_server_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with kept_port() as port:
        url = f"http://127.0.0.1:{port}"
        monkeypatch.setattr(sys, "argv", ["hearth", "bench", "tts", "--quick", "--server", url])
        with pytest.raises(SystemExit, match="1"):
            main()
    output, error = capsys.readouterr()
    assert output == ""
    assert "ConnectError" in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--key-env", "NO_SUCH_VARIABLE"), "NO_SUCH_VARIABLE is not set"),
        (("--only", "phrases"), "no part 'phrases': did you mean phrase?"),
        (("--out", "/dev/null/all"), "/dev/null/all: Not a directory"),
    ],
)
def test_wrong_use_is_reported_before_any_request(
    scripted: Scripted, arguments: tuple[str, str], message: str
) -> None:
    code, _, error = hearth("--server", scripted.at("steady"), *arguments)
    assert code == 2
    assert message in " ".join(error.replace("│", " ").split())
    assert scripted.bodies == []


def test_the_same_words_are_kept_in_every_format_and_voice(
    brisk: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = replace(SMALL, parts=("formats",), formats=("pcm",))
    monkeypatch.setattr(run, "QUICK", wide)
    out = tmp_path / "new"
    voices = ("--voice", "af_heart", "--voice", "b/f", "--only", "formats")
    hearth("--server", brisk.at("steady"), *voices, "--out", str(out))
    sounds = json.loads((out / "bench-tts.json").read_text())["sounds"]
    assert [(one["format"], one["voice"]) for one in sounds] == [
        ("pcm", "af_heart"),
        ("pcm", "b/f"),
    ]
    for one in sounds:
        data = (out / one["file"]).read_bytes()
        assert (one["size_bytes"], one["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
        assert one["audio_s"] > 0
    assert {path.parent for path in (out / "audio").iterdir()} == {out / "audio"}
    page = (out / "bench-tts.md").read_text()
    assert "## The same words in every format and voice" in page
    assert f"| audio/server-af_heart.pcm | {sounds[0]['sha256'][:16]} |" in page


def test_a_sound_that_cannot_be_kept_costs_no_figure(brisk: Scripted, tmp_path: Path) -> None:
    (tmp_path / "audio").write_text("a file in place of the folder")
    only = ("--only", "formats", "--voice", "af_heart", "--out", str(tmp_path))
    hearth("--server", brisk.at("steady"), *only)
    report = json.loads((tmp_path / "bench-tts.json").read_text())
    (sound,) = report["sounds"]
    assert (sound["file"], sound["error"]) == ("", "not kept: File exists")
    assert len(sound["sha256"]) == 64
    assert report["servers"][0]["figures"]
    assert "| not kept: File exists |" in (tmp_path / "bench-tts.md").read_text()


def test_a_format_that_fails_has_its_reason_in_the_table(
    brisk: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hearth.bench.session.FAILURES", 9)
    only = ("--only", "formats", "--voice", "af_heart", "--out", str(tmp_path))
    hearth("--server", brisk.at("refusing"), *only)
    (sound,) = json.loads((tmp_path / "bench-tts.json").read_text())["sounds"]
    assert (sound["file"], sound["size_bytes"], sound["audio_s"]) == ("", 0, None)
    assert sound["error"].startswith("HTTP 400: ")
    assert not (tmp_path / "audio").exists()


def test_without_a_folder_only_sizes_and_hashes_are_reported(brisk: Scripted) -> None:
    only = ("--only", "formats", "--json")
    _, output, _ = hearth("--server", brisk.at("steady"), "--voice", "af_heart", *only)
    (sound,) = json.loads(output)["sounds"]
    assert sound["file"] == ""
    assert len(sound["sha256"]) == 64
