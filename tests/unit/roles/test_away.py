"""Requests to a service that is down get the reverse proxy's error from Debian's Caddy."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.ports import kept_port
from tests.unit.roles.caddies import caddy

FILE = (Path(__file__).parents[3] / "caddy" / "Caddyfile").read_text()
HOST = "chat.lan"
PAGE = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
SITE = """
{
	admin off
	auto_https off
}
%s
http://chat.lan:%d {
	import always
	import away
	import secure
	header ?Content-Security-Policy "script-src 'self'"
	route {
		reverse_proxy 127.0.0.1:%d {
			buffer_requests
		}
	}
}
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """One response."""

    status: int
    head: Mapping[str, str]
    text: str


class Program(BaseHTTPRequestHandler):
    """A program behind the reverse proxy that refuses in its own words, breaks off, or ends."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/ends":
            self.close_connection = True
            return
        refuses = self.path == "/refuses"
        self.send_response(HTTPStatus.SERVICE_UNAVAILABLE if refuses else HTTPStatus.OK)
        body = b"my model is still loading" if refuses else b"half"
        self.send_header("Content-Length", str(len(body) if refuses else 2 * len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


def snippet(name: str) -> str:
    """Return one of the reverse proxy's snippets from its file."""
    found = re.search(rf"^\({name}\) \{{\n.*?^\}}\n", FILE, re.MULTILINE | re.DOTALL)
    assert found, name
    return found[0]


@pytest.fixture(scope="module")
def program() -> Iterator[int]:
    """The port of a program that runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Program)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    """The ports of the two reverse proxies, and one on which nothing listens."""
    with kept_port() as runs, kept_port() as away, kept_port() as unused:
        yield {"runs": runs, "away": away, "unused": unused}


@pytest.fixture(scope="module")
def door(
    program: int, ports: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, int]]:
    """Two reverse proxies: behind one a program runs, behind the other none does."""
    folder = tmp_path_factory.mktemp("caddy")
    known = "".join(snippet(name) for name in ("always", "away", "secure"))
    with ExitStack() as running:
        for name, behind in (("runs", program), ("away", ports["unused"])):
            file = folder / f"{name}.Caddyfile"
            file.write_text(SITE % (known, ports[name], behind))
            running.enter_context(caddy(file, ports[name]))
        yield ports


def ask(port: int, path: str, head: Mapping[str, str], method: str = "GET") -> Answer:
    """Request the chat from a reverse proxy."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        line.request(
            method, path, body="x" if method == "POST" else None, headers={"Host": HOST, **head}
        )
        answer = line.getresponse()
        try:
            text = answer.read()
        except http.client.IncompleteRead as cut:
            text = cut.partial
        # A header that comes twice would be joined here, and be seen.
        names = {name: ", ".join(answer.headers.get_all(name) or []) for name in answer.headers}
        return Answer(answer.status, names, text.decode())
    finally:
        line.close()


def test_a_browser_gets_a_page_that_retries(door: dict[str, int]) -> None:
    answer = ask(door["away"], "/c/42", PAGE)
    assert answer.status == 502
    assert answer.head["Content-Type"] == "text/html; charset=utf-8"
    assert f"<h1>{HOST} is unavailable</h1>" in answer.text
    assert "reloads every 5 seconds" in answer.text
    assert answer.head["Refresh"] == answer.head["Retry-After"] == "5"
    assert answer.head["Cache-Control"] == "no-store"
    assert "{" not in re.sub(r"<style>.*</style>", "", answer.text)


def test_the_page_may_load_nothing_but_its_own_style(door: dict[str, int]) -> None:
    answer = ask(door["away"], "/", PAGE)
    (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = answer.head["Content-Security-Policy"]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'; ")
    assert "script-src" not in policy
    assert "<script" not in answer.text
    assert 'style="' not in answer.text


def test_a_sent_form_is_not_sent_again_automatically(door: dict[str, int]) -> None:
    answer = ask(door["away"], "/hearth-login/", PAGE, "POST")
    assert answer.status == 502
    assert "Refresh" not in answer.head
    assert "may not have arrived" in answer.text
    assert "by itself" not in answer.text


@pytest.mark.parametrize(
    ("path", "head"),
    [
        ("/v1/models", {}),
        ("/v1/models", PAGE),
        ("/api/config", {"Accept": "application/json"}),
        ("/page/main.mjs", {"Accept": "*/*"}),
    ],
)
def test_a_program_gets_one_error_in_openais_shape(
    door: dict[str, int], path: str, head: dict[str, str]
) -> None:
    answer = ask(door["away"], path, head)
    assert (answer.status, answer.head["Content-Type"]) == (502, "application/json")
    error = json.loads(answer.text)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"].startswith(f"{HOST} is unavailable: the service is starting")
    assert answer.head["Retry-After"] == "5"
    assert "Refresh" not in answer.head


@pytest.mark.parametrize("head", [{}, PAGE])
def test_errors_have_the_headers_of_all_responses(
    door: dict[str, int], head: dict[str, str]
) -> None:
    answer = ask(door["away"], "/", head)
    assert answer.head["X-Content-Type-Options"] == "nosniff"
    assert answer.head["Referrer-Policy"] == "same-origin"
    assert answer.head["Strict-Transport-Security"] == "max-age=31536000"
    assert "Server" not in answer.head


def test_a_program_that_ends_before_its_response_counts_as_stopped(door: dict[str, int]) -> None:
    answer = ask(door["runs"], "/ends", PAGE)
    assert (answer.status, f"{HOST} is unavailable" in answer.text) == (502, True)


@pytest.mark.parametrize("head", [{}, PAGE])
def test_a_programs_own_errors_are_unchanged(door: dict[str, int], head: dict[str, str]) -> None:
    answer = ask(door["runs"], "/refuses", head)
    assert (answer.status, answer.text) == (503, "my model is still loading")
    assert answer.head["Content-Security-Policy"] == "script-src 'self'"
    assert not {"Retry-After", "Refresh"} & set(answer.head)


def test_an_interrupted_response_gets_no_error_page_appended(door: dict[str, int]) -> None:
    assert ask(door["runs"], "/breaks", PAGE).text == "half"
