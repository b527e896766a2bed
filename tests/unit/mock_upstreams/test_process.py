"""The served mock upstreams as a process: TLS by its own authority, a clean end, nothing left."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.mock_upstreams import certificates, ollama_archive, registry
from tests.mock_upstreams.__main__ import DEFAULT_CACHE
from tests.mock_upstreams.models import Layer

ROOT = Path(__file__).parents[3]
END_S = 60


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    archive = ollama_archive.archive_path(tmp_path)
    archive.parent.mkdir(parents=True)
    archive.write_text("archive")
    layers = [Layer("application/vnd.ollama.image.model", tmp_path / "weights")]
    layers.append(Layer("application/vnd.docker.container.image.v1+json", tmp_path / "config"))
    for layer in layers:
        layer.path.write_text(layer.media_type)
    # Fetched once where it is not installed, not for each test and the process in it.
    shared = ROOT / ".hearth" / "mock_upstreams"
    executable = registry.program(shared)
    if executable.is_relative_to(shared):
        (tmp_path / registry.PROGRAM).symlink_to(shared / registry.PROGRAM)
    # Weights are made once as well; no test here requests them.
    for made in ("kokoro", "whisper"):
        (DEFAULT_CACHE / made).mkdir(parents=True, exist_ok=True)
        (tmp_path / made).symlink_to(DEFAULT_CACHE / made)
    with registry.running(executable, registry.storage_path(tmp_path)) as address:
        registry.push(address, "tiny:latest", layers)
    return tmp_path


@pytest.fixture
def process(cache: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.mock_upstreams", "serve", "--address", "127.0.0.1"]
    command += ["--port", "0", "--cache", str(cache)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        yield running
        running.kill()


def children(process: int) -> list[str]:
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


def test_serves_with_its_own_authority_and_leaves_no_files(
    cache: Path, process: subprocess.Popen[str]
) -> None:
    assert process.stdout is not None
    ready = process.stdout.readline()
    port = int(ready.rpartition(":")[2])
    trust = ssl.create_default_context(cafile=certificates.authority_path(cache))
    place = f"https://127.0.0.1:{port}/v2/library/tiny/manifests/latest"
    headers = {"Host": "registry.ollama.ai"}
    named = {"sni_hostname": "registry.ollama.ai"}
    with httpx.Client(verify=trust, trust_env=False) as client:
        answer = client.get(place, headers=headers, extensions=named)
    assert answer.json()["layers"][0]["mediaType"] == "application/vnd.ollama.image.model"
    assert answer.headers["docker-content-digest"].startswith("sha256:")
    with (
        httpx.Client(trust_env=False) as stranger,
        pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        stranger.get(place, headers=headers, extensions=named)
    started = children(process.pid)
    assert started
    process.send_signal(signal.SIGTERM)
    assert process.wait(END_S) == 0
    assert [pid for pid in started if os.path.exists(f"/proc/{pid}")] == []


def test_an_address_in_use_is_reported_in_one_line(
    cache: Path, process: subprocess.Popen[str]
) -> None:
    assert process.stdout is not None
    port = process.stdout.readline().rpartition(":")[2].strip()
    command = [sys.executable, "-m", "tests.mock_upstreams", "serve", "--address", "127.0.0.1"]
    second = subprocess.run(
        [*command, "--port", port, "--cache", str(cache)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=END_S,
        check=False,
    )
    assert second.returncode == 1
    assert (
        second.stderr
        == f"mock upstreams: cannot listen on 127.0.0.1:{port}: Address already in use\n"
    )
