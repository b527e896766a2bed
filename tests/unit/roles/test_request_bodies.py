"""Whose bodies Debian's Caddy reads, up to which size, and what it removes from requests."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.ports import kept_port
from tests.unit.roles.caddies import caddy

FILE = (Path(__file__).parents[3] / "caddy" / "Caddyfile").read_text()
SITES = ("chat", "whisper", "llm", "kokoro-stream", "trust", "home")
SESSION = {"Authorization": "Bearer session"}
KEY = {"Authorization": "Bearer key"}
SIGN_IN = "/api/v1/auths/signin"
MIB = 2**20
# A proxy that forwards as it reads has requested the program by then; it loses some races.
SOON_S, RACES = 0.01, 100
# Each half is more than Caddy collects before it writes to the client.
EARLY = b"x" * 16_000


@dataclass
class Seen:
    """What the programs behind Caddy received: requests with their headers and body sizes."""

    requests: list[tuple[str, Mapping[str, str], int]] = field(default_factory=list)
    attempts: int = 0
    early: threading.Event = field(default_factory=threading.Event)


class Program(BaseHTTPRequestHandler):
    """A program with its own login; also the house's login, at its two paths."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Behind

    def do_GET(self) -> None:
        if self.path == "/check":
            allowed = self.headers["Authorization"] == KEY["Authorization"]
            self.answer(HTTPStatus.NO_CONTENT if allowed else HTTPStatus.UNAUTHORIZED)
        elif self.path == "/attempt":
            self.server.seen.attempts += 1
            few = self.server.seen.attempts <= 3
            self.answer(HTTPStatus.NO_CONTENT if few else HTTPStatus.TOO_MANY_REQUESTS)
        elif self.path == "/api/v1/users/user/info":
            allowed = self.headers["Authorization"] == SESSION["Authorization"]
            self.answer(HTTPStatus.OK if allowed else HTTPStatus.UNAUTHORIZED)
        else:
            self.do_POST()

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"] or 0)
        if self.headers["X-Early"]:
            half = len(EARLY) // 2
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(EARLY))
            self.wfile.write(EARLY[:half])
            self.server.seen.early.set()
            self.rfile.read(size)
            self.wfile.write(EARLY[half:])
            return
        # Streamed or not, an incomplete body is not counted.
        complete = len(self.rfile.read(size)) == size
        if self.headers["Transfer-Encoding"]:
            while line := int(self.rfile.readline(), 16):
                size += len(self.rfile.read(line + 2)) - 2
            self.rfile.readline()
        if complete:
            self.server.seen.requests.append((self.path, dict(self.headers), size))
        self.answer(HTTPStatus.OK, self.headers["X-Type"])

    def answer(self, status: HTTPStatus, kind: str | None = None) -> None:
        """Send a short response."""
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", "2")
        self.end_headers()
        if status != HTTPStatus.NO_CONTENT:
            self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


class Behind(ThreadingHTTPServer):
    """The server of the program."""

    seen: Seen
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore connections that Caddy has closed."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Caddy with the reference house's sites, in front of one program."""

    port: int
    seen: Seen

    def send(
        self,
        site: str,
        path: str,
        size: int | None = 0,
        head: Mapping[str, str] | None = None,
        method: str = "POST",
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Send a body of this size; `None` sends 20 kB in chunks of unknown length."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Host": f"{site}.lan", **(head or {})}
        try:
            if size is None:
                body = iter([b"x" * 10_000] * 2)
                line.request(method, path, body, headers, encode_chunked=True)
            else:
                line.request(method, path, b"x" * size, headers)
            answer = line.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            line.close()

    def early(self, site: str, path: str) -> bytes:
        """Send a body in two parts to a program that answers before the second one."""
        self.seen.early.clear()
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            line.putrequest("POST", path, skip_host=True)
            for name, value in (("Host", f"{site}.lan"), ("X-Early", "yes")):
                line.putheader(name, value)
            line.putheader("Content-Length", "9000")
            line.endheaders(b"x" * 100)
            self.seen.early.wait(SOON_S)
            line.send(b"x" * 8900)
            return line.getresponse().read()
        finally:
            line.close()

    def status(
        self, site: str, path: str, announced: int, head: Mapping[str, str] | None = None
    ) -> int:
        """Announce a body of this size, send none of it, and return the status."""
        lines = [f"POST {path} HTTP/1.1", f"Host: {site}.lan", f"Content-Length: {announced}"]
        lines += [f"{name}: {value}" for name, value in (head or {}).items()]
        with socket.create_connection(("127.0.0.1", self.port), 30) as line:
            line.sendall("\r\n".join([*lines, "", ""]).encode())
            return int(line.recv(100).split()[1])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """One Caddy for all tests."""
    with ExitStack() as running:
        behind = Behind(("127.0.0.1", 0), Program)
        running.callback(behind.server_close)
        behind.seen = Seen()
        thread = threading.Thread(target=behind.serve_forever, args=(0.05,))
        thread.start()
        running.callback(thread.join)
        running.callback(behind.shutdown)
        port = running.enter_context(kept_port())
        snippets = FILE[FILE.index("(always) {") : FILE.index("\nhttps://")]
        # Without HTTPS: certificates have tests of their own.
        snippets = re.sub(r"\ttls \{\n.*?\n\t\}\n", "", snippets, flags=re.DOTALL)
        blocks = [site(name).replace(f"https://{name}.lan", f":{port}", 1) for name in SITES]
        text = "{\n\tadmin off\n\tauto_https off\n}\n" + snippets
        for name, block in zip(SITES, blocks, strict=True):
            text += block.replace(f":{port} {{", f"http://{name}.lan:{port} {{", 1)
        text = re.sub(r"http://(10\.140\.30|127\.0\.0)\.\d+:\d+", behind_url(behind), text)
        file = tmp_path_factory.mktemp("caddy") / "Caddyfile"
        file.write_text(text)
        running.enter_context(caddy(file, port))
        yield Edge(port, behind.seen)


def site(name: str) -> str:
    """Return one site's block."""
    found = re.search(rf"^https://{name}\.lan \{{\n.*?^\}}\n", FILE, re.MULTILINE | re.DOTALL)
    assert found, name
    return found[0]


def behind_url(server: Behind) -> str:
    """Return the program's URL."""
    return f"http://127.0.0.1:{server.server_port}"


@pytest.fixture
def edge(served: Edge) -> Edge:
    served.seen.requests.clear()
    served.seen.attempts = 0
    return served


@pytest.mark.parametrize("path", ["/api/v1/files/", "/api/chat/completions", "/api/v1/configs/x"])
def test_before_a_sign_in_no_large_body_is_read(edge: Edge, path: str) -> None:
    # The response comes although nothing of the body was sent: so Caddy holds nothing of it.
    for size in (900_000, 60_000_000, 268_000_000):
        assert edge.status("chat", path, size) == 401
        assert edge.status("chat", path, size, {"Authorization": "Bearer wrong"}) == 401
    # Go's server discards shorter bodies before it responds.
    assert edge.send("chat", path, 10_000)[0] == 401
    assert edge.send("chat", path, None)[0] == 401
    assert edge.seen.requests == []
    # A body of unknown length where nobody expects one ends at 10 kB.
    edge.send("chat", path, None, method="GET")
    assert all(size <= 10_000 for _, _, size in edge.seen.requests)


def test_after_a_sign_in_each_path_has_its_limit(edge: Edge) -> None:
    limits = {
        "/api/v1/files/": 256 * MIB,
        "/api/v1/audio/transcriptions": 256 * MIB,
        "/api/v1/chats/import": 256 * MIB,
        "/api/v1/chats/new": 64 * MIB,
        "/api/chat/completions": 64 * MIB,
        "/api/v1/users/user/settings/update": 16 * MIB,
        "/api/v1/configs/import": MIB,
        "/api/v1/models/import": MIB,
    }
    for path, most in limits.items():
        assert edge.status("chat", path, most + 1, SESSION) == 413, path
    for path, most in limits.items():
        if most <= 16 * MIB:
            assert edge.send("chat", path, most, SESSION)[0] == 200, path
    assert edge.send("chat", "/api/v1/files/", 20_000_000, SESSION)[0] == 200
    assert edge.send("chat", "/api/v1/files/", None, SESSION)[0] == 200
    sizes = [size for _, _, size in edge.seen.requests]
    assert sizes == [16 * MIB, MIB, MIB, 20_000_000, 20_000]


def test_small_requests_are_forwarded_without_a_check(edge: Edge) -> None:
    assert edge.send("chat", SIGN_IN, 200)[0] == 200
    assert edge.send("chat", "/api/config", method="GET")[0] == 200
    assert edge.send("chat", "/api/v1/chats/new", 9_999)[0] == 200
    assert [size for _, _, size in edge.seen.requests] == [200, 0, 9_999]


def test_sign_ins_are_counted_before_their_body_is_read(edge: Edge) -> None:
    statuses = [edge.send("chat", SIGN_IN, 100)[0] for _ in range(4)]
    assert statuses == [200, 200, 200, 429]
    assert len(edge.seen.requests) == 3
    # Another spelling of the path is the same path.
    for path in ("/api/v1//auths/signin", "/api/v1/auths/sign%69n", "/api/v1/x/../auths/signin"):
        assert edge.send("chat", path, 100)[0] == 429, path
    assert edge.send("chat", "/api/config", method="GET")[0] == 200


def test_a_site_for_the_whole_lan_takes_small_requests_only(edge: Edge) -> None:
    status, _, _ = edge.send("trust", "/", 9_000)
    assert status == 200
    edge.send("trust", "/", 12_000)
    assert [size for _, _, size in edge.seen.requests] == [9_000]


def test_a_key_is_checked_before_a_body_is_read(edge: Edge) -> None:
    for name, path in (
        ("whisper", "/v1/audio/transcriptions"),
        ("llm", "/v1/chat/completions"),
        ("kokoro-stream", "/v1/audio/speech"),
    ):
        assert edge.status(name, path, 50_000_000) == 401
    assert edge.status("whisper", "/v1/audio/transcriptions", 512 * MIB + 1, KEY) == 413
    assert edge.status("llm", "/v1/chat/completions", 64_000_001, KEY) == 413
    assert edge.status("kokoro-stream", "/v1/audio/speech", 10 * MIB + 1, KEY) == 413
    status, _, body = edge.send("llm", "/v1/chat/completions", 64_000_000, KEY)
    assert (status, body) == (200, b"ok")
    assert edge.send("whisper", "/v1/audio/transcriptions", 64_000_001, KEY)[0] == 200
    assert edge.send("whisper", "/v1/audio/transcriptions", None, KEY)[0] == 200
    assert [size for _, _, size in edge.seen.requests] == [64_000_000, 64_000_001, 20_000]


def test_a_response_that_starts_before_its_request_has_ended_is_complete(edge: Edge) -> None:
    assert {edge.early("home", "/hearth-login/") for _ in range(RACES)} == {EARLY}


def test_an_upload_above_the_limit_is_explained(edge: Edge) -> None:
    line = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=30)
    line.putrequest("POST", "/v1/audio/transcriptions", skip_host=True)
    for name, value in {"Host": "whisper.lan", "Content-Length": "640000000", **KEY}.items():
        line.putheader(name, value)
    line.endheaders()
    answer = line.getresponse()
    error = json.loads(answer.read())["error"]
    line.close()
    assert (answer.status, error["code"], error["param"]) == (413, "too_large", None)
    assert error["message"].endswith("may have at most 512 MiB")


def test_only_the_server_of_models_sees_its_callers_keys(edge: Edge) -> None:
    for name, path in (
        ("whisper", "/v1/models"),
        ("kokoro-stream", "/v1/audio/voices"),
        ("llm", "/v1/models"),
    ):
        assert edge.send(name, path, head=KEY, method="GET")[0] == 200
    seen = [headers.get("Authorization") for _, headers, _ in edge.seen.requests]
    assert seen == [None, None, KEY["Authorization"]]
    # The chat's own sessions use the same header.
    assert edge.send("chat", "/api/models", head=SESSION, method="GET")[0] == 200
    assert edge.seen.requests[-1][1]["Authorization"] == SESSION["Authorization"]


@pytest.mark.parametrize(
    "kind",
    [
        "text/javascript; charset=utf-8",
        "application/javascript",
        "text/html",
        "application/xhtml+xml",
        "text/xml",
        "text/css",
    ],
)
def test_what_people_upload_is_never_a_script_or_a_page(edge: Edge, kind: str) -> None:
    _, head, _ = edge.send("chat", "/api/v1/files/7/content", head={"X-Type": kind}, method="GET")
    assert head.get_all("Content-Type") == ["text/plain; charset=utf-8"]
    assert head["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/v1/files/7/content", "image/svg+xml"),
        ("/api/v1/files/7/content", "application/pdf"),
        ("/api/v1/files/", "application/json"),
        ("/_app/main.js", "text/javascript"),
    ],
)
def test_other_responses_keep_their_type(edge: Edge, path: str, kind: str) -> None:
    _, head, _ = edge.send("chat", path, head={"X-Type": kind}, method="GET")
    assert head.get_all("Content-Type") == [kind]


@pytest.mark.parametrize("path", ["functions/load/url", "tools/load/url", "skills/load/url"])
def test_the_chat_never_loads_a_url_for_its_admin(edge: Edge, path: str) -> None:
    assert edge.send("chat", f"/api/v1/{path}", 30, SESSION)[0] == 404
    assert edge.send("chat", f"/api//v1/{path.upper()}", 30, SESSION)[0] == 404
    assert edge.seen.requests == []


def test_only_open_paths_need_no_login_and_nothing_of_a_client_is_passed_on(edge: Edge) -> None:
    head = {"Authorization": "Bearer wrong", "Cookie": "__Host-hearth=x", "X-Hearth-Consumer": "me"}
    assert edge.send("home", "/up", 0, head, "GET")[0] == 200
    ((path, headers, _),) = edge.seen.requests
    assert path == "/up"
    assert not {"Authorization", "Cookie", "X-Hearth-Consumer"} & set(headers)
    others = (
        "/",
        "/upper",
        "/up/",
        "/up/x",
        "/do",
        "//do",
        "/up/../do",
        "/up/%2e%2e/do",
        "/up%2fdo",
    )
    for other in others:
        assert edge.send("home", other, 0, head, "GET")[0] == 401, other
    # Open to read, not to write.
    assert edge.send("home", "/up", 0, head, "POST")[0] == 401
    assert len(edge.seen.requests) == 1
