"""Run commands in a sandbox, read and write its files, and ask its servers.

Everything in a sandbox is hostile: output is bounded, deadlines are kept on the machine's side, and
a sandbox that ignores one is stopped.
"""

import json
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from hearth.machine import engine
from hearth.sandbox import SandboxError
from hearth.sandbox.lifecycle import (
    connect,
    create_sandbox,
    delete_sandbox,
    find_sandbox,
    stop_sandbox,
)

LONGEST_S = 120.0
# Of each stream: the first half and the last half of it are kept.
OUTPUT_BYTES = 32 * 1024
FILE_BYTES = 1 << 20
_MOST_WORDS, _WORDS_BYTES = 256, 100_000
# `timeout` needs two seconds to kill, and Incus a moment to report it.
_GRACE_S = 7.0
# To create a sandbox for a program, to write the program, and to end it.
_AROUND_CODE_S = 240.0
# As `timeout` ends: by itself, or killed because the command did not end.
_TIMED_OUT = (124, 137)
_UNIT = re.compile(r"[A-Za-z0-9@_.:\\-]{1,200}")
ACTIONS = ("status", "start", "stop", "restart", "reload", "enable", "disable", "cat")
_PATH = re.compile(r"/[!-~]{0,500}")
_PROBE_S, _BODY_BYTES = 25.0, 16 * 1024
# What has just been started loads its model before it listens.
_STARTS_S, _ANSWERS_S = 15.0, 10.0
# Python's standard library only, which every image has.
_PROBE = f"""
import http.client, itertools, json, sys, time
starts_s, port, path, *hosts = sys.argv[1:]
end = time.monotonic() + float(starts_s)
for number, host in enumerate(itertools.cycle(hosts), 1):
    one = http.client.HTTPConnection(host, int(port), timeout={_ANSWERS_S:g})
    try:
        one.connect()
    except ConnectionRefusedError:
        if number % len(hosts) == 0:
            if time.monotonic() > end:
                break
            time.sleep(0.3)
        continue
    one.request("GET", path, headers={{"Connection": "close"}})
    got = one.getresponse()
    head = {{key[:100]: value[:200] for key, value in got.getheaders()[:30]}}
    body = got.read({_BODY_BYTES}).decode(errors="replace")
    json.dump([got.status, head, body], sys.stdout)
    break
"""
_ENVIRONMENT = {"HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb"}
LANGUAGES: Mapping[str, Sequence[str]] = {"python": ("/usr/bin/python3",), "sh": ("/bin/sh",)}
_NO_FILE = 44
# Of a larger file, one byte too much shows that it is.
_READ = f'[ -f "$1" ] || exit {_NO_FILE}; exec head -c {FILE_BYTES + 1} -- "$1"'
_WRITE = 'mkdir -p -- "$(dirname -- "$1")" && cat >"$1"'


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended; `cut` counts the bytes that are missing in the middle of its output.

    Output is text from the sandbox: nothing in it can be trusted.
    """

    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False
    cut: int = 0


@dataclass(frozen=True, slots=True)
class Response:
    """The response of a server in a sandbox, with the start of its body."""

    status: int
    headers: dict[str, str]
    body: str
    seconds: float


@dataclass(slots=True)
class _Kept:
    """The start and the end of a stream of any length, each at most half of `most` bytes.

    `broken` says that Incus lost the rest, which a busy one does now and then.
    """

    most: int = OUTPUT_BYTES
    start: bytearray = field(default_factory=bytearray)
    end: bytearray = field(default_factory=bytearray)
    count: int = 0
    broken: bool = False

    def add(self, data: bytes) -> None:
        half = self.most // 2
        self.count += len(data)
        fits = half - len(self.start)
        if fits > 0:
            self.start += data[:fits]
        self.end += data[max(0, fits) :]
        del self.end[:-half]

    @property
    def missing(self) -> int:
        return self.count - len(self.start) - len(self.end)

    @property
    def text(self) -> str:
        between = f"\n[… {self.missing} bytes are left out …]\n" if self.missing else ""
        start, end = (part.decode(errors="replace") for part in (self.start, self.end))
        lost = "\n[… Incus lost the rest …]\n" if self.broken else ""
        return f"{start}{between}{end}{lost}"


def run_command(
    name: str, argv: Sequence[str], *, timeout_s: float = 30, stdin: bytes = b""
) -> Ran:
    """Run `argv` as root of the sandbox, for at most two minutes.

    Raises:
        SandboxError: no such sandbox, or it ignored the deadline and was stopped.
        EngineError: Incus failed.
    """
    find_sandbox(name)
    return _run(name, argv, timeout_s, stdin)


def run_code(language: str, code: str, *, timeout_s: float = 30) -> Ran:
    """Run a program in an empty sandbox of its own, which is deleted afterwards."""
    if language not in LANGUAGES:
        raise SandboxError(f"language {language[:40]}: name one of {', '.join(LANGUAGES)}")
    _bounded_text(code)
    # If this is killed, it does not stay for an hour.
    sandbox = create_sandbox(None, lifetime_s=timeout_s + _AROUND_CODE_S)
    try:
        path = "/root/program"
        write_file(sandbox.name, path, code)
        return _run(sandbox.name, [*LANGUAGES[language], path], timeout_s)
    finally:
        delete_sandbox(sandbox.name)


def read_file(name: str, path: str) -> bytes:
    """Return a file of a running sandbox, of at most a megabyte."""
    find_sandbox(name)
    argv = ["/bin/sh", "-c", _READ, "sh", _absolute(path)]
    code, kept = _whole(name, argv, 20, 2 * FILE_BYTES)
    if code == _NO_FILE:
        raise SandboxError(f"{name}: {path[:80]}: there is no such file")
    if code or kept.count > FILE_BYTES:
        raise SandboxError(
            f"{name}: {path[:80]} is longer than {FILE_BYTES >> 20} MiB, or cannot be read"
        )
    return bytes(kept.start)


def write_file(name: str, path: str, text: str) -> None:
    """Write a file in a sandbox, of at most a megabyte; an existing one keeps owner and mode."""
    _bounded_text(text)
    find_sandbox(name)
    ran = _run(name, ["/bin/sh", "-c", _WRITE, "sh", _absolute(path)], 20, text.encode())
    if ran.exit_code:
        # Its own words may be anybody's, and errors are not marked as such.
        raise SandboxError(f"{name}: {path[:80]} cannot be written (exit code {ran.exit_code})")


def control_unit(name: str, action: str, unit: str) -> Ran:
    """Run `systemctl ACTION UNIT` in a sandbox."""
    if action not in ACTIONS:
        raise SandboxError(f"action {action[:40]}: name one of {', '.join(ACTIONS)}")
    if not _UNIT.fullmatch(unit) or unit.startswith("-"):
        raise SandboxError(f"unit {unit[:40]!r}: write a name such as kokoro.service")
    find_sandbox(name)
    words = ["--no-pager", "--lines=50"] if action == "status" else ["--no-pager"]
    return _run(name, ["/usr/bin/systemctl", *words, action, unit], 60)


def probe(name: str, port: int, path: str = "/") -> Response:
    """Send a GET request to a server in a sandbox, from inside of it.

    The address is the one that the service has in the house, or else the loopback. A server that
    does not listen yet is waited for, 15 seconds at most.

    Raises:
        SandboxError: nothing answers there within that time, or what answers is not HTTP.
    """
    if not 0 < port < 65536 or not _PATH.fullmatch(path):
        raise SandboxError(f"port {port} or path {path[:40]!r} is not valid")
    hosts = [*({find_sandbox(name).address} - {""}), "127.0.0.1"]
    argv = ["/usr/bin/python3", "-I", "-c", _PROBE, f"{_STARTS_S:g}", str(port), path, *hosts]
    started = time.monotonic()
    code, out = _whole(name, argv, _PROBE_S, 32 * _BODY_BYTES)
    # What it printed may be from any program of the sandbox.
    try:
        status, headers, body = json.loads(out.start)
        head = {str(key)[:100]: str(value)[:200] for key, value in [*headers.items()][:30]}
        found = Response(int(status), head, str(body)[:_BODY_BYTES], 0)
    except (ValueError, TypeError, AttributeError, RecursionError):
        reason = f"no answer within {_PROBE_S:g} s" if code in _TIMED_OUT else "no HTTP server"
        raise SandboxError(f"{name}: port {port}: {reason}") from None
    return replace(found, seconds=round(time.monotonic() - started, 3))


def _run(name: str, argv: Sequence[str], timeout_s: float, stdin: bytes = b"") -> Ran:
    out, err = _Kept(), _Kept()
    code, seconds = _end(name, argv, timeout_s, stdin, out, err)
    return Ran(
        exit_code=code,
        stdout=out.text,
        stderr=err.text,
        seconds=round(seconds, 3),
        timed_out=code in _TIMED_OUT and seconds >= timeout_s,
        cut=out.missing + err.missing,
    )


def _whole(name: str, argv: Sequence[str], timeout_s: float, most: int) -> tuple[int, _Kept]:
    """Run a command that only reads, a second time if its output is lost; return code and output.

    Raises:
        SandboxError: it was lost twice; half of a file is no file.
    """
    for _ in range(2):
        out = _Kept(most=most)
        code, _seconds = _end(name, argv, timeout_s, b"", out, _Kept())
        if not out.broken:
            return code, out
    raise SandboxError(f"{name}: Incus lost the output of a command: try again")


def _end(
    name: str, argv: Sequence[str], timeout_s: float, stdin: bytes, out: _Kept, err: _Kept
) -> tuple[int, float]:
    """Run a command to its end; return its exit code, and how long it took."""
    _check(argv, timeout_s)
    limited = ["/usr/bin/timeout", "--kill-after=2", f"{timeout_s:g}", *argv]
    started = time.monotonic()
    kept = dict(zip(engine.STREAMS[1:], (out, err), strict=True))
    try:
        code = engine.bounded(
            name, lambda: _collect(name, limited, stdin, kept), timeout_s + _GRACE_S
        )
    except engine.EngineError:
        # Another `timeout`, or one that was stopped: nothing of it may go on.
        if time.monotonic() - started < timeout_s + _GRACE_S:
            raise
        stop_sandbox(name, "a command ignored its deadline, so the sandbox was stopped")
        raise SandboxError(f"{name}: the command ignored its deadline: it was stopped") from None
    return int(code), time.monotonic() - started


def _check(argv: Sequence[str], timeout_s: float) -> None:
    if not 0 < timeout_s <= LONGEST_S:
        raise SandboxError(f"timeout {timeout_s:g} s: at most {LONGEST_S:g} s")
    if not argv or len(argv) > _MOST_WORDS or sum(map(len, argv)) > _WORDS_BYTES:
        raise SandboxError(f"a command has 1 to {_MOST_WORDS} words, and {_WORDS_BYTES} characters")
    if any("\0" in word for word in argv):
        raise SandboxError("a command argument contains a NUL byte")


def _collect(name: str, argv: Sequence[str], stdin: bytes, kept: Mapping[str, _Kept]) -> int:
    with engine.started(connect(), name, argv, environment=_ENVIRONMENT) as (streams, wait):
        readers = [
            threading.Thread(target=_read, args=(streams[stream], one), daemon=True)
            for stream, one in kept.items()
        ]
        for reader in readers:
            reader.start()
        engine.send(streams[engine.STREAMS[0]], stdin)
        ended: dict[str, Any] = wait()
        for reader in readers:
            reader.join()
    code = (ended.get("metadata") or {}).get("return")
    if code is None:
        raise SandboxError(f"{name}: {ended.get('err') or 'the command ended without exit code'}")
    return int(code)


def _read(stream: ClientConnection, kept: _Kept) -> None:
    try:
        while isinstance(message := stream.recv(), bytes):
            kept.add(message)
    except ConnectionClosed as error:
        kept.broken = error.rcvd is None


def _absolute(path: str) -> str:
    if not path.startswith("/") or "\0" in path or len(os.fsencode(path)) > 4000:
        raise SandboxError(f"path {path[:40]!r}: write a path from the root, such as /etc/hosts")
    return path


def _bounded_text(text: str) -> None:
    if len(text.encode()) > FILE_BYTES:
        raise SandboxError(f"the text has more than {FILE_BYTES >> 20} MiB")
