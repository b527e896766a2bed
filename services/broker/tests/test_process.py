"""The program as systemd starts and stops it."""

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from hearth.catalogue.house import House
from hearth_broker.config import Config
from tests.ports import kept_port

from .conftest import KEY, digest, key

ROOT = Path(__file__).parents[3]
PACKAGES = [ROOT, Path(__file__).parents[1], ROOT / "services/serving"]


def start(config: Path, port: int) -> subprocess.Popen[str]:
    options = ["--config", str(config), "--port", str(port)]
    return subprocess.Popen(
        [sys.executable, "-m", "hearth_broker", *options],
        env={"PYTHONPATH": ":".join(map(str, PACKAGES))},
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def file(config: Config, house: House, tmp_path: Path) -> Path:
    (tmp_path / "house.json").write_text(json.dumps(house.as_vars()))
    plain = json.loads(config.model_dump_json())
    plain |= {"house": str(tmp_path / "house.json"), "approvals": str(tmp_path / "approvals")}
    plain["consumers"] = {"team": {"sha256": digest(KEY), "verbs": ["web_search", "restart"]}}
    path = tmp_path / "broker.json"
    path.write_text(json.dumps(plain))
    return path


def test_it_serves_its_verbs_and_ends_soon(file: Path) -> None:
    with kept_port() as port:
        process = start(file, port)
        try:
            deadline = time.monotonic() + 30
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    assert process.poll() is None
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
            url = f"http://127.0.0.1:{port}"
            with httpx.Client(base_url=url, headers=key(), trust_env=False, timeout=10) as client:
                assert client.get("/health").text == '{"status":"ok"}'
                paths = client.get("/openapi.json").json()["paths"]
                assert set(paths) == {"/v1/verbs/web_search", "/v1/verbs/restart"}
                answer = client.post("/v1/verbs/web_search", json={"query": "a"})
                assert "no search server" in answer.text
                began = time.monotonic()
                process.send_signal(signal.SIGTERM)
                assert process.wait(10) in (0, -signal.SIGTERM)
            assert time.monotonic() - began < 8
        finally:
            process.kill()
            said = process.communicate()[1]
    assert KEY not in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"house": "/nowhere/house.json"}, "/nowhere/house.json: No such file or directory: run"),
        ({"consumers": {"a": {"sha256": "x", "verbs": []}}}, "consumers.a.sha256: String should"),
        ({"more": 1}, "more: Extra inputs are not permitted"),
        ({"state": "/nowhere"}, "/nowhere/audit.jsonl: No such file or directory"),
    ],
)
def test_a_setup_that_is_not_valid_is_one_line(
    file: Path, change: dict[str, object], words: str
) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with kept_port() as port:
        process = start(file, port)
        _, error = process.communicate(timeout=30)
    assert process.returncode == 2
    assert words in error
    assert error.count("\n") == 1
