"""The baseline of STT: by a command here, inside an instance, and its answers."""

from __future__ import annotations

import base64
import io
import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from hearth.bench import baseline
from hearth.bench import whisper_baseline as program
from hearth.bench.baseline import in_service, measured_seconds, whisper_command
from hearth.clients import ClientError
from hearth.machine import engine, outside

ANSWERS = """
import json, sys
for line in sys.stdin:
    size = len(json.loads(line)["pcm"])
    print(json.dumps({"seconds": [size, size + 2, 100 * size], "text": ""}))
"""


def test_every_sound_has_its_own_seconds() -> None:
    sounds = [bytes(30), bytes(60)]
    assert measured_seconds(None, [sys.executable, "-c", ANSWERS], sounds) == [42.0, 82.0]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([sys.executable, "-c", "import sys; sys.exit('it is full\\nof eels')"], "of eels"),
        ([sys.executable, "-c", "print('{}')"], "did not report its seconds"),
        ([sys.executable, "-c", "pass"], "answered 0 of 1"),
    ],
)
def test_what_goes_wrong_is_one_line(argv: list[str], message: str) -> None:
    with pytest.raises(ClientError, match=message) as caught:
        measured_seconds(None, argv, [bytes(2)])
    assert "\n" not in str(caught.value)


def test_a_command_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "WITHIN_S", 0.1)
    argv = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(engine.EngineError, match=r"longer than 0\.1 s"):
        measured_seconds(None, argv, [bytes(2)])


SERVED = ["/venv/bin/python", "-m", "hearth_whisper", "--model", "/m/small", "--model=/m/tiny"]
STATUS = {"model": "tiny", "threads": 2, "device": "cpu", "compute_type": "int8"}


def test_a_servers_own_python_model_and_threads_are_taken() -> None:
    argv = whisper_command(SERVED, ["PYTHONPATH=/lib"], STATUS)
    assert argv[:4] == ["/usr/bin/env", "PYTHONPATH=/lib", "/venv/bin/python", "-c"]
    assert "WhisperModel" in argv[4]
    assert argv[5:] == [
        *("--model", "/m/tiny", "--threads", "2", "--device", "cpu", "--compute-type", "int8")
    ]
    assert "/m/small" in whisper_command(SERVED, [], {})
    with pytest.raises(ClientError, match="names no model"):
        whisper_command(["/venv/bin/python"], [], STATUS)


async def test_inside_an_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[list[str], str]] = []

    def execute(instance: str, argv: list[str], *, timeout: float, stdin: str = "") -> Any:
        calls.append((argv, stdin))
        return SimpleNamespace(stdout='{"seconds": [2.5]}\n', returncode=0, stderr="")

    # On a card the plain call finds its libraries nowhere else.
    own = ["HOME=/var/lib/whisper", "PYTHONPATH=/lib", "LD_LIBRARY_PATH=/lib/nvidia/cublas/lib"]
    files = {
        "/proc/42/cmdline": "\0".join(SERVED) + "\0",
        "/proc/42/environ": "\0".join(own) + "\0",
    }
    monkeypatch.setattr(engine, "execute", execute)
    monkeypatch.setattr(engine, "read_file", lambda instance, path: files[path])
    running = outside.Processes(pids=(42,))
    monkeypatch.setattr(outside, "processes", lambda system, unit: running)
    service: Any = SimpleNamespace(
        instance="whisper", system="whisper", unit="whisper.service", address="10.0.0.2"
    )
    assert in_service(service, whisper_command)(STATUS)([b"ab"]) == [2.5]
    ((argv, stdin),) = calls
    assert argv[:4] == ["/usr/bin/env", *own[1:], "/venv/bin/python"]
    assert json.loads(stdin) == {"pcm": base64.b64encode(b"ab").decode()}


class FakeModel:
    made: list[dict[str, Any]]
    calls: list[tuple[int, dict[str, Any]]]

    def __init__(self, folder: str, **options: Any) -> None:
        FakeModel.made = [{"folder": folder, **options}]
        FakeModel.calls = []

    def transcribe(self, sound: Any, **options: Any) -> Any:
        FakeModel.calls.append((len(sound), options))
        return iter([SimpleNamespace(text=" Put it"), SimpleNamespace(text=" on.")]), None


def test_the_baseline_is_the_usual_call_of_the_library(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = SimpleNamespace(WhisperModel=FakeModel)
    monkeypatch.setitem(sys.modules, "faster_whisper", fake)
    lines = "".join(
        json.dumps({"pcm": base64.b64encode(bytes(2 * n)).decode()}) + "\n" for n in (3, 5)
    )
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    assert program.main(["--model", "/m", "--threads", "2"]) == 0
    output = capsys.readouterr().out
    assert [len(json.loads(line)["seconds"]) for line in output.splitlines()] == [1, 1]
    # The first call of all finds the model's memory, and does not count.
    assert [length for length, _ in FakeModel.calls] == [3, 3, 5]
    assert FakeModel.calls[0][1] == {"language": "en"}
    (made,) = FakeModel.made
    assert (made["folder"], made["cpu_threads"], made["local_files_only"]) == ("/m", 2, True)


def test_a_model_that_is_not_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no model.bin\nin there")

    monkeypatch.setitem(sys.modules, "faster_whisper", SimpleNamespace(WhisperModel=none))
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"pcm": ""}\n'))
    assert program.main(["--model", "/m"]) == 1
    assert capsys.readouterr().err == "whisper_baseline: no model.bin in there\n"
