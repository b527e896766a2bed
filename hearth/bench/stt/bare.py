"""Plain faster_whisper calls on the same machine, with the same model: what a server is held to."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hearth.catalogue.house import Service
from hearth.clients import ClientError
from hearth.machine import engine

WITHIN_S = 240.0
BY_HOUSE = "Each is a call of faster_whisper with its own defaults, and the server's threads."
BY_COMMAND = "Each is a call by the command given by --bare."
_ASK_S = 20
# Where a server's Python finds its packages, and CTranslate2 the libraries of a card.
_KEPT = ("PYTHONPATH=", "LD_LIBRARY_PATH=")
_SOURCE = Path(__file__).with_name("plain.py")

Bare = Callable[[Sequence[bytes]], Awaitable[list[float]]]
"""Transcribes each sound and returns the seconds of each. Raises ClientError."""


def by_command(argv: Sequence[str], within_s: float = WITHIN_S) -> Bare:
    """Return what calls by a command on this machine: lines of JSON in, lines of JSON out."""

    async def run(sounds: Sequence[bytes]) -> list[float]:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise ClientError(f"the plain call cannot be run: {error}") from error
        try:
            async with asyncio.timeout(within_s):
                said, wrong = await process.communicate(_lines(sounds).encode())
        except TimeoutError as error:
            raise ClientError(f"the plain call took longer than {within_s:g} s") from error
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            raise ClientError(f"the plain call failed: {_last(wrong.decode('utf-8', 'replace'))}")
        return read(len(sounds), said.decode("utf-8", "replace"))

    return run


def in_house(service: Service, status: Mapping[str, Any], within_s: float = WITHIN_S) -> Bare:
    """Return what calls inside the instance of a service, with its server's Python and model."""

    def work(sounds: Sequence[bytes]) -> list[float]:
        try:
            argv = plain(*_process(service), status)
            done = engine.execute(service.instance, argv, timeout=within_s, stdin=_lines(sounds))
        except engine.EngineError as error:
            raise ClientError(str(error)) from error
        if done.returncode:
            raise ClientError(f"the plain call in {service.instance} failed: {_last(done.stderr)}")
        return read(len(sounds), done.stdout)

    async def run(sounds: Sequence[bytes]) -> list[float]:
        return await asyncio.to_thread(work, sounds)

    return run


def plain(argv: Sequence[str], environment: Sequence[str], status: Mapping[str, Any]) -> list[str]:
    """Return the command that calls as a server with that command line and /status would.

    `environment` has what it needs of the server's, as NAME=value.

    Raises:
        ClientError: the server does not say its model.
    """
    models = [b for a, b in itertools.pairwise(argv) if a == "--model"]
    models += [a.removeprefix("--model=") for a in argv if a.startswith("--model=")]
    name = str(status.get("model", ""))
    wanted = [model for model in models if Path(model).name == name] or models
    if not wanted:
        raise ClientError("its command names no model: give a command by --bare")
    return [
        *("/usr/bin/env", *environment, argv[0], "-c", _SOURCE.read_text("utf-8")),
        *("--model", wanted[0], "--threads", str(status.get("threads") or 0)),
        *("--device", str(status.get("device") or "cpu")),
        *("--compute-type", str(status.get("compute_type") or "int8")),
    ]


def _process(service: Service) -> tuple[list[str], list[str]]:
    """Return a server's command line and what is kept of its environment, as its process says."""
    ask = ["/usr/bin/systemctl", "show", service.unit, "--property=MainPID", "--value"]
    number = engine.execute(service.instance, ask, timeout=_ASK_S).stdout.strip()
    if not number.isdigit() or number == "0":
        raise ClientError(f"{service.unit} does not run")
    argv = engine.read_file(service.instance, f"/proc/{number}/cmdline").split("\0")
    environment = engine.read_file(service.instance, f"/proc/{number}/environ").split("\0")
    return argv[:-1], [one for one in environment if one.startswith(_KEPT)]


def read(sounds: int, said: str) -> list[float]:
    """Return the median seconds of each sound from what the plain calls wrote.

    Raises:
        ClientError: they did not answer as asked.
    """
    try:
        answers = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        seconds = [statistics.median(float(s) for s in answer["seconds"]) for answer in answers]
    except (ValueError, KeyError, TypeError) as error:
        raise ClientError("the plain call did not say its seconds") from error
    if len(seconds) != sounds:
        raise ClientError(f"the plain call answered {len(seconds)} of {sounds} sounds")
    return seconds


def _lines(sounds: Sequence[bytes]) -> str:
    return "".join(json.dumps({"pcm": base64.b64encode(pcm).decode()}) + "\n" for pcm in sounds)


def _last(said: str) -> str:
    return (said.strip().splitlines() or ["no reason given"])[-1][:200]
