"""One bare inference of a text, on the same machine and with the same model: what nobody beats."""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hearth.catalogue.house import Service
from hearth.clients import ClientError
from hearth.machine import engine

WITHIN_S = 90.0
BY_HOUSE = (
    "It runs with the server's own session options: threads do not spin while they wait, and "
    "memory is given back after each run."
)
BY_COMMAND = (
    "It is the command given by --bare, with that command's session options; those of "
    "hearth_kokoro.bare are the server's own."
)
_ASK_S = 20

Bare = Callable[[Sequence[str]], Awaitable[list[float]]]
"""Infers each text a few times and returns the median seconds of each. Raises ClientError."""


@dataclass(frozen=True, slots=True)
class Running:
    """How a speech server was started, as its own process says."""

    argv: tuple[str, ...]
    path: str = ""
    """Its PYTHONPATH."""

    def bare(self, model: str, threads: int, repeat: int) -> list[str]:
        """Return the command that infers with the same Python, model and number of threads."""
        module = self.argv.index("-m")
        models = self._options("--model")
        wanted = next((path for path in models if path.rsplit("/", 1)[-1] == model), None)
        voices = self._options("--voices")
        if not voices or not (wanted or models):
            raise ClientError("its command names no model: give one by --bare")
        return [
            *("/usr/bin/env", f"PYTHONPATH={self.path}", *self.argv[:module]),
            *("-m", "hearth_kokoro.bare", "--model", wanted or models[0], "--voices", voices[0]),
            *("--threads", str(threads), "--repeat", str(repeat)),
        ]

    def _options(self, name: str) -> list[str]:
        """Return the values of an option that may be given more than once, in both spellings."""
        values = [b for a, b in zip(self.argv, self.argv[1:], strict=False) if a == name]
        return values + [a[len(name) + 1 :] for a in self.argv if a.startswith(f"{name}=")]


def by_command(argv: Sequence[str], within_s: float = WITHIN_S) -> Bare:
    """Return what infers by a command on this machine: lines of JSON in, lines of JSON out."""

    async def run(texts: Sequence[str]) -> list[float]:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
        except OSError as error:
            raise ClientError(f"the bare inference cannot be run: {error}") from error
        try:
            async with asyncio.timeout(within_s):
                said, _ = await process.communicate(_lines(texts).encode())
        except TimeoutError as error:
            raise ClientError(f"the bare inference took longer than {within_s:g} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise ClientError(f"the bare inference failed with exit code {process.returncode}")
        return read(texts, said.decode("utf-8", "replace"))

    return run


def in_house(
    service: Service, status: Mapping[str, Any], repeat: int, within_s: float = WITHIN_S
) -> Bare:
    """Return what infers inside the instance of a service, as its server was started."""
    model, threads = str(status.get("model", "")), int(status.get("threads") or 1)

    def work(texts: Sequence[str]) -> list[float]:
        try:
            argv = running(service).bare(model, threads, repeat)
            done = engine.execute(service.instance, argv, timeout=within_s, stdin=_lines(texts))
        except engine.EngineError as error:
            raise ClientError(str(error)) from error
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise ClientError(f"the bare inference in {service.instance} failed: {last[:200]}")
        return read(texts, done.stdout)

    async def run(texts: Sequence[str]) -> list[float]:
        return await asyncio.to_thread(work, texts)

    return run


def running(service: Service) -> Running:
    """Return how a service's server was started.

    Raises:
        ClientError: it does not run.
        EngineError: its instance cannot be looked into.
    """
    ask = ["/usr/bin/systemctl", "show", service.unit, "--property=MainPID", "--value"]
    number = engine.execute(service.instance, ask, timeout=_ASK_S).stdout.strip()
    if not number.isdigit() or number == "0":
        raise ClientError(f"{service.unit} does not run")
    argv = engine.read_file(service.instance, f"/proc/{number}/cmdline").split("\0")
    environment = engine.read_file(service.instance, f"/proc/{number}/environ").split("\0")
    path = next((e.partition("=")[2] for e in environment if e.startswith("PYTHONPATH=")), "")
    if "-m" not in argv:
        raise ClientError(f"{service.unit} is no Python module: give the command by --bare")
    return Running(tuple(argv[:-1]), path)


def _lines(texts: Sequence[str]) -> str:
    return "".join(json.dumps({"text": text}) + "\n" for text in texts)


def read(texts: Sequence[str], said: str) -> list[float]:
    """Return the median seconds of each text from what the bare inference wrote.

    Raises:
        ClientError: it did not answer as asked.
    """
    try:
        answers = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        seconds = [statistics.median(float(s) for s in answer["seconds"]) for answer in answers]
    except (ValueError, KeyError, TypeError) as error:
        raise ClientError(f"the bare inference did not say its seconds: {said[:200]!r}") from error
    if len(seconds) != len(texts):
        raise ClientError(f"the bare inference answered {len(seconds)} of {len(texts)} texts")
    return seconds
