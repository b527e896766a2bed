"""The real gateway around the real LiteLLM, in a separate process, as its unit starts it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml

from hearth.render.gateway import gateway_files, litellm_config
from tests.environments import PROJECT, locked_packages
from tests.ports import kept_port

from .house import KEYS, MASTER_KEY, house
from .upstream import Upstream

READY_S = 90


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running gateway, its address and its log."""

    url: str
    log_file: Path
    process: subprocess.Popen[bytes]

    def lines(self) -> list[dict[str, str]]:
        """Return the request lines so far, split into fields."""
        lines = self.log_file.read_text().splitlines()
        cut = [line.split() for line in lines if line.startswith("consumer=")]
        return [dict(pair.split("=", 1) for pair in pairs) for pairs in cut]

    def line_after(
        self, seen: int, alias: str, path: str | None = None, within_s: float = 30
    ) -> dict[str, str]:
        """Return the first request line for `alias`, and of `path`, behind the `seen` ones.

        A line follows its answer, so that of an earlier request may come after the `seen` ones.
        """
        end = time.monotonic() + within_s
        while True:
            for line in self.lines()[seen:]:
                if line["alias"] == json.dumps(alias) and path in (None, line["path"]):
                    return line
            assert time.monotonic() < end, f"no line for {alias}"
            time.sleep(0.02)


@pytest.fixture(scope="session")
def upstream() -> Iterator[Upstream]:
    with Upstream() as server:
        yield server


@pytest.fixture(scope="session")
def settings(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files of the role: configuration in `etc`, credentials in `credentials`."""
    folder = tmp_path_factory.mktemp("gateway")
    etc, credentials = folder / "etc", folder / "credentials"
    etc.mkdir()
    credentials.mkdir(mode=0o700)
    made = house(upstream.url)
    (etc / "config.yaml").write_text(yaml.safe_dump(litellm_config(made)))
    refused = {"needed_bytes": 9 << 30, "refused": "it needs 9.0 GiB; speech leaves 4.0 GiB"}
    budget = {"room_bytes": 4 << 30, "models": {"crowded": refused}}
    for name, content in gateway_files(made, budget).items():
        (etc / name).write_text(json.dumps(content))
    digests = {name: hashlib.sha256(key.encode()).hexdigest() for name, key in KEYS.items()}
    (credentials / "consumer_digests").write_text(json.dumps(digests))
    (credentials / "litellm_master_key").write_text(MASTER_KEY)
    return folder


def environment(settings: Path) -> dict[str, str]:
    """Return the whole environment of the gateway's process: no secret is in it."""
    ours = [str(PROJECT / "services" / name) for name in ("gateway", "serving")]
    packages = os.pathsep.join((str(locked_packages("litellm")), *ours))
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(settings),
        "PYTHONPATH": packages,
        "PYTHONNOUSERSITE": "1",
        "CREDENTIALS_DIRECTORY": str(settings / "credentials"),
    }


@pytest.fixture(scope="session")
def gateway(settings: Path, upstream: Upstream) -> Iterator[Gateway]:
    # -S: the shared environment's packages must not answer for a missing one of the lock.
    command = [sys.executable, "-S", "-u", "-m", "hearth_gateway"]
    command += ["--config", str(settings / "etc" / "config.yaml")]
    log_file = settings / "log"
    with kept_port() as port, log_file.open("wb") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            env=environment(settings),
            cwd=settings,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        running = Gateway(f"http://127.0.0.1:{port}", log_file, process)
        try:
            _await_ready(running)
            # Starting must load no model, however LiteLLM is warmed up.
            assert upstream.calls == []
            yield running
        finally:
            process.terminate()
            process.wait(20)


def _await_ready(gateway: Gateway) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end and gateway.process.poll() is None:
        try:
            if httpx.get(f"{gateway.url}/health/readiness", timeout=2).is_success:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    pytest.fail(f"the gateway did not start:\n{gateway.log_file.read_text()[-3000:]}")


@pytest.fixture
def owner(gateway: Gateway) -> Iterator[httpx.Client]:
    with _client(gateway, KEYS["owner"]) as client:
        yield client


@pytest.fixture
def guest(gateway: Gateway) -> Iterator[httpx.Client]:
    with _client(gateway, KEYS["guest"]) as client:
        yield client


def _client(gateway: Gateway, key: str) -> httpx.Client:
    headers = {"authorization": f"Bearer {key}"}
    return httpx.Client(base_url=gateway.url, headers=headers, timeout=200, trust_env=False)
