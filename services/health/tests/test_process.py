"""The program as systemd starts and stops it, with open pages."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from hearth_health.config import Config
from tests.ports import kept_port

from .conftest import Write

PACKAGES = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "serving")]


def command(config: Path, port: int) -> list[str]:
    options = ["--config", str(config), "--port", str(port)]
    return [sys.executable, "-W", "error", "-m", "hearth_health", *options]


@pytest.fixture
def running(config: Config, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    with kept_port() as port, (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            command(tmp_path / "health.json", port),
            env={"PYTHONPATH": ":".join(PACKAGES)},
            stderr=log,
        )
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.05)
        try:
            yield process, f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def test_open_pages_see_a_change_and_do_not_hold_up_its_end(
    running: tuple[subprocess.Popen[bytes], str], write: Write, tmp_path: Path
) -> None:
    process, url = running
    write()
    with httpx.stream("GET", f"{url}/events", timeout=20) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        first = next(line for line in lines if line.startswith("data: {"))
        assert "Everything works" in json.loads(first[6:])["summary"]
        write(broken=True)
        second = next(line for line in lines if "Not working" in line)
        # Only what changed.
        assert "models" not in json.loads(second[6:])
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) in (0, -signal.SIGTERM)
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "Expecting"), ("{}", "'site'"), ('{"site": 3}', "must be a text"), ("[]", "keys"),
     ('{"sites": 1}', "sites is unknown")],
)  # fmt: skip
def test_a_wrong_configuration_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "health.json").write_text(text)
    done = subprocess.run(
        command(tmp_path / "health.json", 1),
        env={"PYTHONPATH": ":".join(PACKAGES)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("hearth-health: ")
    assert words in line
    assert "hearth up" in line
