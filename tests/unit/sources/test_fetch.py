"""A download ends with the right bytes or with one line, whatever the server does."""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hearth.sources import Limits, Source, SourceError
from hearth.sources.download import fetch, manifest_digest

CONTENT = bytes(range(256)) * 4096  # 1 MiB
DIGEST = hashlib.sha256(CONTENT).hexdigest()
DROPS, DROP_S = 300, 0.1
QUICK = Limits(timeout_s=20, stall_s=2, attempts=3, backoff_s=0.01, spare_bytes=0)


@dataclass
class Server:
    """A download server whose next responses the test sets one by one; then it behaves."""

    base: str = ""
    content: bytes = CONTENT
    etag: str = '"one"'
    plan: list[Callable[["Handler"], None]] = field(default_factory=list)
    requests: list[dict[str, str]] = field(default_factory=list)

    def source(self, sha256: str | None = DIGEST, **more: object) -> Source:
        return Source("tool", "1.2", f"{self.base}/tool.tar", sha256, **more)  # type: ignore[arg-type]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: Server

    def do_GET(self) -> None:
        self.state.requests.append({"path": self.path, **dict(self.headers.items())})
        (self.state.plan.pop(0) if self.state.plan else behave)(self)

    def log_message(self, *_: object) -> None:
        pass

    def head(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()


def behave(handler: Handler, upto: int | None = None) -> None:
    """Serve the content with ETag, Range and If-Range; cut after `upto` bytes."""
    content, etag, start = handler.state.content, handler.state.etag, 0
    wanted = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
    if wanted and handler.headers.get("If-Range", etag) == etag:
        start = int(wanted[1])
    body = content[start:]
    more = {"Content_Length": str(len(body)), "ETag": etag}
    if start >= len(content):
        return handler.head(416, Content_Length="0")
    if start:
        more["Content_Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
    handler.head(206 if start else 200, **more)
    handler.wfile.write(body if upto is None else body[:upto])
    handler.close_connection = upto is not None


def cut(handler: Handler) -> None:
    behave(handler, 300_000)


def ignore_range(handler: Handler) -> None:
    handler.head(200, Content_Length=str(len(CONTENT)), ETag='"one"')
    handler.wfile.write(CONTENT)


def respond(status: int, **headers: str) -> Callable[[Handler], None]:
    return lambda handler: handler.head(status, Content_Length="0", **headers)


def stall(handler: Handler) -> None:
    handler.head(200, Content_Length=str(len(CONTENT)), ETag='"one"')
    handler.wfile.write(CONTENT[:300_000])
    handler.wfile.flush()
    # Until the client has left, and no longer than a minute.
    handler.connection.settimeout(60)
    handler.connection.recv(1)
    handler.close_connection = True


def drip(handler: Handler) -> None:
    handler.head(200, Content_Length=str(len(CONTENT)), ETag='"one"')
    for _ in range(DROPS):
        handler.wfile.write(b"x")
        handler.wfile.flush()
        time.sleep(DROP_S)


def drip_headers(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    for _ in range(DROPS):
        handler.wfile.write(b"x")
        handler.wfile.flush()
        time.sleep(DROP_S)


def endless(handler: Handler) -> None:
    handler.head(200, Transfer_Encoding="chunked")
    for _ in range(200):
        handler.wfile.write(b"2800\r\n" + b"x" * 0x2800 + b"\r\n")


def without_length(handler: Handler) -> None:
    handler.head(200, Connection="close")
    handler.wfile.write(CONTENT[:500_000])
    handler.close_connection = True


def wrong_part(handler: Handler) -> None:
    handler.head(206, Content_Length="10", Content_Range="bytes 0-9/1048576", ETag='"one"')
    handler.wfile.write(CONTENT[:10])


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()
    handler = type("StatefulHandler", (Handler,), {"state": state})

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Clients that hang up are what is tested here."""

    with Quiet(("127.0.0.1", 0), handler) as listening:
        state.base = f"http://127.0.0.1:{listening.server_address[1]}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield state
        listening.shutdown()


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if not p.name.endswith(".lock"))


def test_a_file_is_fetched_once_and_then_verified(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    got = fetch(server.source(), tmp_path, {}, lambda *progress: seen.append(progress), QUICK)
    assert got.path.read_bytes() == CONTENT
    assert got.sha256 == DIGEST
    assert seen[-1] == ("tool", len(CONTENT), len(CONTENT))
    assert names(tmp_path) == ["tool-1.2-tool.tar"]
    assert fetch(server.source(), tmp_path, {}, None, QUICK).path == got.path
    assert len(server.requests) == 1
    got.path.write_bytes(b"damaged")
    assert fetch(server.source(), tmp_path, {}, None, QUICK).path.read_bytes() == CONTENT


def test_a_file_without_a_known_digest_is_returned_with_its_own(
    server: Server, tmp_path: Path
) -> None:
    assert fetch(server.source(None), tmp_path, {}, None, QUICK).sha256 == DIGEST


@pytest.mark.parametrize("sha256", [DIGEST, None])
def test_a_cut_download_is_resumed(server: Server, tmp_path: Path, sha256: str | None) -> None:
    server.plan = [cut, cut, cut]
    got = fetch(server.source(sha256), tmp_path, {}, None, QUICK)
    assert got.sha256 == DIGEST
    ranges = [request.get("Range") for request in server.requests]
    assert ranges == [None, "bytes=300000-", "bytes=600000-", "bytes=900000-"]
    assert {request.get("If-Range") for request in server.requests[1:]} == {'"one"'}


def test_a_file_that_changed_meanwhile_is_fetched_whole(server: Server, tmp_path: Path) -> None:
    def cut_and_change(handler: Handler) -> None:
        cut(handler)
        server.content, server.etag = CONTENT[::-1], '"two"'

    server.plan = [cut_and_change]
    got = fetch(server.source(None), tmp_path, {}, None, QUICK)
    assert got.path.read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize("odd", [ignore_range, respond(416), wrong_part, respond(500)])
def test_an_odd_response_to_a_range_request_does_no_harm(
    server: Server, tmp_path: Path, odd: Callable[[Handler], None]
) -> None:
    server.plan = [cut, odd]
    assert fetch(server.source(), tmp_path, {}, None, QUICK).path.read_bytes() == CONTENT


def test_pieces_of_two_files_are_never_joined(server: Server, tmp_path: Path) -> None:
    """Without validators, only the digest shows that the server has another file now."""
    server.etag = ""
    server.content = b"old" + CONTENT[3:]

    def cut_and_change(handler: Handler) -> None:
        cut(handler)
        server.content = CONTENT

    server.plan = [cut_and_change]
    assert fetch(server.source(), tmp_path, {}, None, QUICK).path.read_bytes() == CONTENT
    assert [request.get("Range") for request in server.requests] == [None, "bytes=300000-", None]


def test_without_validator_and_digest_nothing_is_joined(server: Server, tmp_path: Path) -> None:
    server.etag = ""
    server.plan = [cut]
    fetch(server.source(None), tmp_path, {}, None, QUICK)
    assert [request.get("Range") for request in server.requests] == [None, None]


def test_a_temporary_error_is_retried(server: Server, tmp_path: Path) -> None:
    server.plan = [respond(503, Retry_After="0"), respond(500)]
    assert fetch(server.source(), tmp_path, {}, None, QUICK).sha256 == DIGEST


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ([respond(500)] * 3, r"it returned 500 \(0 bytes are here.*run this again later"),
        ([respond(404)], r"it returned 404: name another address, a mirror prefix or a local file"),
        ([respond(403)], "it returned 403: name another"),
        ([respond(301, Location="/tool.tar")] * 30, "redirects in a loop"),
    ],
)
def test_an_error_is_one_line(
    server: Server, tmp_path: Path, plan: list[Callable[[Handler], None]], words: str
) -> None:
    server.plan = plan
    with pytest.raises(SourceError, match=words) as caught:
        fetch(server.source(), tmp_path, {}, None, QUICK)
    assert str(caught.value).startswith(f"tool 1.2 from {server.base}/tool.tar: ")
    assert "\n" not in str(caught.value)


def test_a_missing_server_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no connection"):
        fetch(Source("tool", "1", "http://127.0.0.1:9/x", DIGEST), tmp_path, {}, None, QUICK)


def test_redirects_are_followed(server: Server, tmp_path: Path) -> None:
    server.plan = [respond(302, Location="/moved")]
    assert fetch(server.source(), tmp_path, {}, None, QUICK).sha256 == DIGEST
    assert server.requests[1]["path"] == "/moved"


def test_a_digest_mismatch_names_both_and_keeps_nothing(server: Server, tmp_path: Path) -> None:
    expected = "0" * 64
    with pytest.raises(SourceError, match=f"sha256 is {DIGEST}, expected {expected}.*hearth lock"):
        fetch(server.source(expected), tmp_path, {}, None, QUICK)
    assert names(tmp_path) == []
    assert len(server.requests) == 1


def test_a_stall_is_cut_and_resumed(server: Server, tmp_path: Path) -> None:
    server.plan = [stall]
    # The second response has to come within the stall as well.
    limits = Limits(timeout_s=20, stall_s=2, attempts=2, backoff_s=0.01, spare_bytes=0)
    assert fetch(server.source(), tmp_path, {}, None, limits).sha256 == DIGEST
    assert server.requests[1]["Range"] == "bytes=300000-"


@pytest.mark.parametrize("slow", [drip, drip_headers])
def test_a_drip_ends_with_the_total_deadline(
    server: Server, tmp_path: Path, slow: Callable[[Handler], None]
) -> None:
    server.plan = [slow]
    started = time.monotonic()
    # No drop is missed, also where the machine stalls.
    limits = Limits(timeout_s=0.6, stall_s=60, attempts=2, backoff_s=0.01, spare_bytes=0)
    with pytest.raises(SourceError, match=r"not ready after 0\.6 s"):
        fetch(server.source(), tmp_path, {}, None, limits)
    assert time.monotonic() - started < 3


@pytest.mark.parametrize(
    ("plan", "sha256", "size", "words"),
    [
        ([], DIGEST, 5, r"it has 1,048,576 bytes, expected 5"),
        ([endless], DIGEST, 20_000, r"it sends more than 20,000 bytes"),
        ([without_length], None, None, "does not send the file"),
    ],
)
def test_a_wrong_length_is_refused(
    server: Server,
    tmp_path: Path,
    plan: list[Callable[[Handler], None]],
    sha256: str | None,
    size: int | None,
    words: str,
) -> None:
    server.plan = plan
    with pytest.raises(SourceError, match=words):
        fetch(server.source(sha256, size=size), tmp_path, {}, None, QUICK)
    assert not (tmp_path / "tool-1.2-tool.tar").exists()


def test_a_full_disk_is_reported_before_the_first_byte(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1_000_000))
    with pytest.raises(SourceError, match=r"has 1,000,000 bytes free, 1,048,576 are needed"):
        fetch(server.source(), tmp_path, {}, None, QUICK)
    assert names(tmp_path) == []


def test_the_longest_mirror_prefix_wins(server: Server, tmp_path: Path) -> None:
    mirrors = {
        "https://example.org/": "http://127.0.0.1:9/",
        "https://example.org/a/": f"{server.base.replace('//', '//me:topsecret@')}/m/",
    }
    source = Source("tool", "1.2", "https://example.org/a/b.tar", DIGEST)
    assert fetch(source, tmp_path, mirrors, None, QUICK).sha256 == DIGEST
    assert server.requests[0]["path"] == "/m/b.tar"
    server.plan = [respond(404)]
    with pytest.raises(SourceError, match="404") as caught:
        fetch(source, tmp_path / "fresh", mirrors, None, QUICK)
    assert "topsecret" not in str(caught.value)


def test_a_mirror_may_be_a_folder_and_a_source_a_file(tmp_path: Path) -> None:
    (tmp_path / "tool.tar").write_bytes(CONTENT)
    mirrors = {"https://example.org/": f"{tmp_path}/"}
    for url in ("https://example.org/tool.tar", str(tmp_path / "tool.tar")):
        got = fetch(Source("tool", "1", url, DIGEST), tmp_path / "no", mirrors, None, QUICK)
        assert got.path == tmp_path / "tool.tar"
        with pytest.raises(SourceError, match=f"sha256 is {DIGEST}, expected 000"):
            fetch(Source("tool", "1", url, "0" * 64), tmp_path / "no", mirrors, None, QUICK)
    (tmp_path / "tool.tar").unlink()
    with pytest.raises(SourceError, match="no such file: put it there"):
        fetch(Source("tool", "1", url, DIGEST), tmp_path / "no", mirrors, None, QUICK)
    assert not (tmp_path / "no").exists()


def test_plain_http_without_a_digest_is_refused(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hearth.sources.download._is_protected", lambda url: False)
    with pytest.raises(SourceError, match="plain http does not protect the file"):
        fetch(server.source(None), tmp_path, {}, None, QUICK)
    assert fetch(server.source(), tmp_path, {}, None, QUICK).sha256 == DIGEST


@pytest.mark.parametrize("sha256", [DIGEST, None])
def test_a_killed_download_continues_where_it_was(
    server: Server, tmp_path: Path, sha256: str | None
) -> None:
    server.plan = [stall]
    code = (
        "import sys; from pathlib import Path; from hearth.sources import Source\n"
        "from hearth.sources.download import fetch\n"
        "fetch(Source('tool', '1.2', sys.argv[1], sys.argv[2] or None), Path(sys.argv[3]),"
        " progress=lambda *_: print('some', flush=True))\n"
    )
    arguments = [f"{server.base}/tool.tar", sha256 or "", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        running.stdout.readline()
        os.kill(running.pid, signal.SIGKILL)
    part = (tmp_path / "tool-1.2-tool.tar.part").stat().st_size
    assert fetch(server.source(sha256), tmp_path, {}, None, QUICK).sha256 == DIGEST
    assert part > 0
    assert server.requests[1]["Range"] == f"bytes={part}-"
    assert names(tmp_path) == ["tool-1.2-tool.tar"]


PAGE = b"\n<!DOCTYPE html><html><body>Please sign in to the network</body></html>"


def sign_in_page(handler: Handler) -> None:
    handler.head(200, Content_Length=str(len(PAGE)), Content_Type="text/html; charset=utf-8")
    handler.wfile.write(PAGE)


def page_without_a_type(handler: Handler) -> None:
    handler.head(200, Content_Length=str(len(PAGE)))
    handler.wfile.write(PAGE)


@pytest.mark.parametrize("sha256", [DIGEST, None])
@pytest.mark.parametrize("page", [sign_in_page, page_without_a_type])
def test_a_web_page_is_never_taken_for_the_file(
    server: Server, tmp_path: Path, page: Callable[[Handler], None], sha256: str | None
) -> None:
    server.plan = [page]
    with pytest.raises(SourceError, match=r"a web page, not .*the file: open the address in a br"):
        fetch(server.source(sha256), tmp_path, {}, None, QUICK)
    assert len(server.requests) == 1
    # The next run, on a network that lets it through, gets all of it.
    assert fetch(server.source(sha256), tmp_path, {}, None, QUICK).sha256 == DIGEST


def test_half_a_file_outlives_a_web_page(server: Server, tmp_path: Path) -> None:
    once = Limits(timeout_s=20, stall_s=2, attempts=1, backoff_s=0.01, spare_bytes=0)
    server.plan = [cut, sign_in_page]
    for _ in range(2):
        with pytest.raises(SourceError):
            fetch(server.source(), tmp_path, {}, None, once)
    assert fetch(server.source(), tmp_path, {}, None, QUICK).sha256 == DIGEST
    assert server.requests[-1]["Range"] == "bytes=300000-"


REGISTRY = "https://registry.ollama.ai/"


def test_a_manifest_is_digested_as_the_registry_serves_it(server: Server) -> None:
    mirrors = {REGISTRY: f"{server.base}/"}
    server.content = b'{"schemaVersion": 2}'
    digest = hashlib.sha256(server.content).hexdigest()
    assert manifest_digest("qwen3.5:4b", mirrors) == f"sha256:{digest}"
    assert server.requests[0]["path"] == "/v2/library/qwen3.5/manifests/4b"
    assert server.requests[0]["Accept"] == "application/vnd.docker.distribution.manifest.v2+json"


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (respond(404), r"it returned 404: check its name in models\.yml"),
        (sign_in_page, "a web page, not the file"),
        (endless, "sends more than 1,048,576 bytes"),
    ],
)
def test_what_is_not_a_manifest_is_one_line(
    server: Server, response: Callable[[Handler], None], words: str
) -> None:
    server.plan = [response]
    with pytest.raises(SourceError, match=f"^model a:b from {server.base}/.*{words}"):
        manifest_digest("a:b", {REGISTRY: f"{server.base}/"})
