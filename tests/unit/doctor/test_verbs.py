"""The socket does a few things for the page and for root, and for nobody else."""

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hearth.doctor import verbs
from hearth.doctor.verbs import RefusedError, Verbs

ASK = """
import os, socket, sys
os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
client.sendall(b'{"verb": "fix", "key": "A:b"}\\n')
print(client.makefile().readline())
"""
NOBODY = 65534
NOT_JSON = {"ok": False, "text": "invalid request: expected one line of JSON"}


class Acts:
    """What was asked for, in order; `fix` waits until it may go on."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.begun = threading.Event()
        self.go = threading.Event()
        self.go.set()

    def fix(self, key: str) -> str:
        self.done.append(key)
        self.begun.set()
        self.go.wait(30)
        if key == "fails":
            raise RuntimeError("a defect\nof ours")
        if key == "gone":
            raise RefusedError("this finding no longer exists")
        return f"healed {key}"


@pytest.fixture
def acts() -> Acts:
    return Acts()


def is_there(path: Path) -> bool:
    return path.exists()


@pytest.fixture
async def path(acts: Acts, request: pytest.FixtureRequest) -> AsyncIterator[Path]:
    # Outside pytest's own folder, which no other user may enter.
    folder = tempfile.mkdtemp()
    where = Path(folder, "verbs.sock")
    user = getattr(request, "param", "hearth-no-such-user")
    known: dict[str, tuple[str, verbs.Act]] = {
        "fix": ("key", acts.fix),
        "unload": ("model", lambda model: model),
    }
    serving = asyncio.ensure_future(Verbs(where, user, known).serve())
    for _ in range(3000):
        if is_there(where):
            break
        await asyncio.sleep(0.01)
    yield where
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    shutil.rmtree(folder)


async def sent(path: Path, data: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(data)
    try:
        async with asyncio.timeout(30):
            return await reader.readline()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def asked(path: Path, **request: Any) -> tuple[bool, str]:
    answer = json.loads(await sent(path, json.dumps(request).encode() + b"\n"))
    return answer["ok"], answer["text"]


async def test_a_verb_is_carried_out_and_written_down(
    path: Path, acts: Acts, capfd: pytest.CaptureFixture[str]
) -> None:
    assert await asked(path, verb="fix", key="A:b") == (True, "healed A:b")
    assert acts.done == ["A:b"]
    assert capfd.readouterr().err == f"fix A:b (user {os.getuid()}): done: healed A:b\n"


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"verb": "rm", "key": "x"}, "known verbs are fix, unload"),
        ({"key": "x"}, "known verbs are fix, unload"),
        ({"verb": ["fix"], "key": "x"}, "known verbs are fix, unload"),
        ({"verb": "fix"}, "fix needs one text, key"),
        ({"verb": "fix", "key": 7}, "fix needs one text, key"),
        ({"verb": "fix", "key": "x", "command": "y"}, "fix needs one text, key"),
        ({"verb": "fix", "model": "x"}, "fix needs one text, key"),
        ({"verb": "fix", "key": "gone"}, "this finding no longer exists"),
        ({"verb": "fix", "key": "fails"}, "RuntimeError: a defect\nof ours"),
        ([], "known verbs are fix, unload"),
        ("x", "known verbs are fix, unload"),
    ],
)
async def test_what_is_unknown_or_fails_is_one_line_and_the_socket_goes_on(
    path: Path, request_: Any, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    answer = json.loads(await sent(path, json.dumps(request_).encode() + b"\n"))
    assert answer == {"ok": False, "text": text}
    assert capfd.readouterr().err.count("\n") == 1
    assert await asked(path, verb="fix", key="A:b") == (True, "healed A:b")


@pytest.mark.parametrize("data", [b"{\n", b"x" * 100_000 + b"\n", b"\xff\xfe\n", b"\n"])
async def test_what_is_no_request_is_refused(path: Path, acts: Acts, data: bytes) -> None:
    assert json.loads(await sent(path, data)) == {
        "ok": False,
        "text": "invalid request: expected one line of JSON",
    }
    assert acts.done == []


async def test_a_caller_that_sends_nothing_is_sent_away(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verbs, "_ASK_S", 0.05)
    assert json.loads(await sent(path, b'{"verb"')) == NOT_JSON


async def test_callers_that_hold_the_socket_are_bounded(path: Path) -> None:
    with contextlib.ExitStack() as held:
        for _ in range(40):
            client = held.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            client.connect(str(path))
        # One that is too many is closed without an answer.
        assert await sent(path, b'{"verb": "fix", "key": "A:b"}\n') == b""
    for _ in range(500):
        if answer := await sent(path, b'{"verb": "fix", "key": "A:b"}\n'):
            break
        await asyncio.sleep(0.01)
    assert json.loads(answer)["ok"]


async def test_two_requests_for_one_verb_are_not_carried_out_at_once(
    path: Path, acts: Acts
) -> None:
    acts.go.clear()
    first = asyncio.ensure_future(asked(path, verb="fix", key="A:b"))
    assert await asyncio.to_thread(acts.begun.wait, 30)
    good, text = await asked(path, verb="fix", key="B:c")
    assert (good, text) == (False, "another fix is under way: wait for its end")
    # Another verb is.
    assert await asked(path, verb="unload", model="m") == (True, "m")
    acts.go.set()
    assert await first == (True, "healed A:b")
    assert acts.done == ["A:b"]


def everyone_can_connect(path: Path) -> None:
    """Leave it to the check of the caller to refuse."""
    path.chmod(0o666)
    path.parent.chmod(0o755)


async def by_user(path: Path, user: int) -> dict[str, Any]:
    argv = [sys.executable, "-c", ASK, str(path), str(user)]
    done = await asyncio.to_thread(
        subprocess.run, argv, capture_output=True, text=True, timeout=30, check=True
    )
    return dict(json.loads(done.stdout))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as another user")
@pytest.mark.parametrize("path", ["hearth-no-such-user", "nobody"], indirect=True)
async def test_only_root_and_the_page_may_ask(
    path: Path, acts: Acts, capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    everyone_can_connect(path)
    answer = await by_user(path, NOBODY)
    may = request.node.callspec.params["path"] == "nobody"
    assert answer["ok"] == may
    assert acts.done == (["A:b"] if may else [])
    if not may:
        assert answer["text"] == "only the page and root may call the watcher"
        said = capfd.readouterr().err
        assert said == f"a request (user {NOBODY}): refused or failed: {answer['text']}\n"
