"""The baseline of TTS: how it is started, and what becomes of one that does not answer."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest

from hearth.bench import baseline
from hearth.bench.baseline import in_service, kokoro_command, measured_seconds
from hearth.clients import ClientError
from hearth.machine import engine, outside

ANSWER = """
import json, sys
for line in sys.stdin:
    print("loading", flush=True)
    print(json.dumps({"text": json.loads(line)["text"], "seconds": [9, 0.2, 0.3]}))
"""
ARGV = (
    *("/usr/bin/python3", "-P", "-m", "hearth_kokoro", "--voices", "/v/voices.bin"),
    *("--model", "/m/a.onnx", "--model=/m/b.onnx", "--port", "8880"),
)
STATUS = {"model": "b.onnx", "threads": 2}


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_each_text_has_its_median() -> None:
    assert measured_seconds(None, python(ANSWER), ["one", "two"]) == [0.3, 0.3]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (python("import sys; sys.exit(3)"), "exit code 3"),
        (python("print('no')"), "answered 0 of 1 inputs"),
        (python("print('{\"text\": 1}')"), "did not report its seconds"),
        (python("import time; time.sleep(60)"), "longer than 0.5 s"),
    ],
)
def test_what_does_not_answer_is_one_line(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], message: str
) -> None:
    monkeypatch.setattr(baseline, "WITHIN_S", 0.5 if "sleep" in argv[-1] else 30)
    start = time.monotonic()
    with pytest.raises((ClientError, engine.EngineError), match=message):
        measured_seconds(None, argv, ["one"])
    assert time.monotonic() - start < 20


def test_too_many_answers_are_refused() -> None:
    line = json.dumps({"seconds": [1.0]}) + "\n"
    with pytest.raises(ClientError, match="2 of 1"):
        measured_seconds(None, python(f"print({line!r} * 2)"), ["one"])


def test_it_uses_the_servers_python_model_and_threads() -> None:
    assert kokoro_command([*ARGV], ["PYTHONPATH=/opt/code"], STATUS) == [
        *("/usr/bin/env", "PYTHONPATH=/opt/code", "/usr/bin/python3", "-P"),
        *("-m", "hearth_kokoro.baseline", "--model", "/m/b.onnx", "--voices", "/v/voices.bin"),
        *("--threads", "2", "--repeat", "3"),
    ]
    assert "/m/a.onnx" in kokoro_command([*ARGV], [], {"model": "of-another-name"})
    with pytest.raises(ClientError, match="names no model"):
        kokoro_command(["python3", "-m", "hearth_kokoro"], [], STATUS)


class Service:
    """As much of a service as is looked at."""

    name = "kokoro"
    instance = system = "kokoro"
    unit = "kokoro.service"
    address = "10.0.0.3"


async def test_in_the_house_the_running_process_determines_the_baseline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[Sequence[str]] = []

    def execute(instance: str, argv: Sequence[str], **more: Any) -> engine.Completed:
        ran.append(argv)
        if argv[0] == "/bin/cat":
            files = {"cmdline": [*ARGV, ""], "environ": ["A=b", "PYTHONPATH=/opt/code", ""]}
            return engine.Completed(0, "\0".join(files[argv[-1].rsplit("/", 1)[1]]), "")
        assert json.loads(more["stdin"]) == {"text": "one"}
        return engine.Completed(0, '{"seconds": [0.5]}\n', "")

    monkeypatch.setattr(engine, "execute", execute)
    running = outside.Processes(pids=(77,))
    monkeypatch.setattr(outside, "processes", lambda system, unit: running)
    infer = in_service(Service(), kokoro_command)(STATUS)  # type: ignore[arg-type]
    assert infer(["one"]) == [0.5]
    assert "PYTHONPATH=/opt/code" in ran[-1]
    running = outside.Processes()
    with pytest.raises(ClientError, match="does not run"):
        infer(["one"])
