"""The baseline of a server: the same model on the same machine, called without any server.

A baseline program reads lines of JSON, {"text": ...} or {"pcm": base64}, and answers each with one
line that has `seconds`, a list of measured times.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hearth.catalogue.house import Service
from hearth.clients import ClientError
from hearth.machine import engine, outside

WITHIN_S = 240.0
KOKORO_HOW = (
    "It runs with the server's own session options: threads do not spin while they wait, and "
    "memory is returned after each run."
)
WHISPER_HOW = "Each is a call of faster_whisper with its own defaults, and the server's threads."
NO_BASELINE = "only a server of this house has a baseline"
_REPEAT = 3
# A Python finds its packages by the first, and CTranslate2 the libraries of a card by the second.
_KEPT = ("PYTHONPATH=", "LD_LIBRARY_PATH=")
_WHISPER = Path(__file__).with_name("whisper_baseline.py")

Inputs = Sequence[Any]
"""Texts, or sounds as bytes."""
Run = Callable[[Inputs], list[float]]
"""Processes each text or sound and returns the median seconds of each.

Raises ClientError or EngineError.
"""
MakeRun = Callable[[Mapping[str, Any]], Run]
"""Makes the baseline of a server, from its /status. Raises ClientError."""
Command = Callable[[list[str], list[str], Mapping[str, Any]], list[str]]
"""(a server's command line, its kept environment, its /status) -> its baseline's command line."""


@dataclass(slots=True)
class Baseline:
    """The baseline of one run, or the reason why there is none."""

    run: Run | None = None
    missing: str = NO_BASELINE

    async def seconds(self, inputs: Inputs) -> list[float]:
        """Return the seconds of each input; after one failure the baseline is not run again."""
        if self.run is None:
            return []
        try:
            return await asyncio.to_thread(self.run, inputs)
        except (ClientError, engine.EngineError) as error:
            self.run, self.missing = None, str(error)
            return []


def in_service(service: Service, command: Command) -> MakeRun:
    """Return what makes a baseline inside a service's instance, by its server's process."""

    def make(status: Mapping[str, Any]) -> Run:
        if not service.address:
            raise ClientError(f"{service.name} is external: {NO_BASELINE}")
        return lambda inputs: measured_seconds(
            service.instance, command(*_process(service), status), inputs
        )

    return make


def kokoro_command(argv: list[str], environment: list[str], status: Mapping[str, Any]) -> list[str]:
    """Return the command of Kokoro's baseline: the server's Python, model, voices and threads."""
    if "-m" not in argv:
        raise ClientError("the server's command names no Python module")
    model, voices = _model(argv, status), _options(argv, "--voices")
    if not voices:
        raise ClientError("the server's command names no voices")
    return [
        *("/usr/bin/env", *environment, *argv[: argv.index("-m")], "-m", "hearth_kokoro.baseline"),
        *("--model", model, "--voices", voices[0]),
        *("--threads", str(status.get("threads") or 1), "--repeat", str(_REPEAT)),
    ]


def whisper_command(
    argv: list[str], environment: list[str], status: Mapping[str, Any]
) -> list[str]:
    """Return the command of faster_whisper's baseline, with the server's Python and model."""
    return [
        *("/usr/bin/env", *environment, argv[0], "-c", _WHISPER.read_text("utf-8")),
        *("--model", _model(argv, status), "--threads", str(status.get("threads") or 0)),
        *("--device", str(status.get("device") or "cpu")),
        *("--compute-type", str(status.get("compute_type") or "int8")),
    ]


def _model(argv: list[str], status: Mapping[str, Any]) -> str:
    models, name = _options(argv, "--model"), str(status.get("model", ""))
    wanted = [model for model in models if Path(model).name == name] or models
    if not wanted:
        raise ClientError("the server's command names no model")
    return wanted[0]


def _options(argv: list[str], name: str) -> list[str]:
    """Return the values of an option that may be repeated, in both spellings."""
    values = [b for a, b in itertools.pairwise(argv) if a == name]
    return values + [a.removeprefix(f"{name}=") for a in argv if a.startswith(f"{name}=")]


def main_pid(service: Service) -> int:
    """Return the machine's number of a service's main process, 0 when it does not run."""
    return next(iter(outside.processes(service.system, service.unit).pids), 0)


def _process(service: Service) -> tuple[list[str], list[str]]:
    """Return the command line of a service's process, and what is kept of its environment."""
    if not (pid := main_pid(service)):
        raise ClientError(f"{service.unit} does not run")
    argv = engine.read_file(None, f"/proc/{pid}/cmdline").split("\0")
    environment = engine.read_file(None, f"/proc/{pid}/environ").split("\0")
    return argv[:-1], [one for one in environment if one.startswith(_KEPT)]


def measured_seconds(instance: str | None, argv: list[str], inputs: Inputs) -> list[float]:
    """Run a baseline and return the median seconds of each input."""
    lines = [
        {"text": one} if isinstance(one, str) else {"pcm": base64.b64encode(one).decode()}
        for one in inputs
    ]
    stdin = "".join(json.dumps(line) + "\n" for line in lines)
    done = engine.execute(instance, argv, timeout=WITHIN_S, stdin=stdin)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ClientError(f"the baseline failed: {last[:200]}")
    try:
        answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        seconds = [statistics.median(float(s) for s in answer["seconds"]) for answer in answers]
    except (ValueError, KeyError, TypeError) as error:
        raise ClientError("the baseline did not report its seconds") from error
    if len(seconds) != len(inputs):
        raise ClientError(f"the baseline answered {len(seconds)} of {len(inputs)} inputs")
    return seconds
