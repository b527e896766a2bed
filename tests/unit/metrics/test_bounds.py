"""Debian's Prometheus stays small when a program sends too much, and says which program that is."""

from __future__ import annotations

import http.server
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hearth.clients import ClientError
from hearth.clients.endpoints import get_json
from hearth.render import metrics
from tests.ports import kept_port

SERIES = 100_000
PAGES = {
    "good": "x 1\n",
    "series": "".join(f'x{{n="{n}"}} 1\n' for n in range(SERIES)),
    "label": f'x{{n="{"a" * 1_000_000}"}} 1\n',
    "name": f'x{{{"a" * 10_000}="1"}} 1\n',
    "size": "# " + "a" * 5_000_000 + "\nx 1\n",
}
WITHIN_S = 30


class Program(http.server.BaseHTTPRequestHandler):
    """A program whose figures are at /NAME."""

    def do_GET(self) -> None:
        body = PAGES[self.path[1:]].encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def program() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Program)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def prometheus(program: str, tmp_path: Path) -> Iterator[str]:
    """Prometheus with the house's bounds; yields its URL."""
    jobs = [
        {
            "job_name": name,
            **metrics.BOUNDS,
            "metrics_path": f"/{name}",
            "static_configs": [{"targets": [program]}],
        }
        for name in PAGES
    ]
    config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": jobs}
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    argv = ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
    with kept_port() as port:
        argv += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
        with subprocess.Popen(argv, cwd=tmp_path) as running:
            yield f"http://127.0.0.1:{port}"
            running.terminate()


def fetch(url: str) -> Any:
    """Return what Prometheus answers, or nothing while it is starting."""
    try:
        return get_json(url, 5)["data"]
    except ClientError:
        return {}


def test_too_many_series_and_too_long_labels_are_refused_and_named(prometheus: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while True:
        targets = fetch(f"{prometheus}/api/v1/targets").get("activeTargets", [])
        if targets and all(target["lastScrape"] > "1" for target in targets):
            break
        assert time.monotonic() < deadline, "not every program was read"
        time.sleep(0.2)
    why = {target["scrapePool"]: target["lastError"] for target in targets}
    assert why["good"] == ""
    assert "sample limit" in why["series"] or "sample_limit" in why["series"]
    assert "label_value_length_limit" in why["label"]
    assert "label_name_length_limit" in why["name"]
    assert "body size limit" in why["size"]
    status = fetch(f"{prometheus}/api/v1/status/tsdb")
    # It had taken some before it noticed.
    assert status["headStats"]["numSeries"] < metrics.BOUNDS["sample_limit"] + 100
