"""Stream the output of a program in an instance: in little memory, with truncation as an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK
from websockets.frames import Close

from hearth.backup import BackupError
from hearth.backup.agent import Child


class ScriptedStream:
    """One websocket of Incus with these messages."""

    def __init__(self, *messages: str | bytes, broken: bool = False) -> None:
        self._messages: Iterator[str | bytes] = iter(messages)
        self._broken, self.sent = broken, list[str | bytes]()
        self.requests = 0

    def recv(self, timeout: float | None = None) -> str | bytes:
        self.requests += 1
        for message in self._messages:
            return message
        if self._broken:
            raise ConnectionClosedError(None, None)
        raise ConnectionClosedOK(Close(1000, ""), Close(1000, ""))

    def send(self, message: str | bytes) -> None:
        self.sent.append(message)


def child(out: ScriptedStream, errors: ScriptedStream | None = None, code: int | None = 0) -> Child:
    streams = {"0": ScriptedStream(), "1": out, "2": errors or ScriptedStream("")}
    ended = {"metadata": {"return": code}} if code is not None else {"err": "gone"}
    return Child("open-webui", cast("Any", streams), lambda: ended)


def test_nothing_is_requested_before_it_is_needed() -> None:
    out = ScriptedStream(b"abc", b"defgh", "")
    running = child(out)
    assert running.read(2) == b"ab"
    assert out.requests == 1
    assert [running.read(100) for _ in range(3)] == [b"c", b"defgh", b""]
    running.wait()


def test_truncated_output_is_an_error() -> None:
    running = child(ScriptedStream(b"abc", broken=True))
    assert running.read(3) == b"abc"
    with pytest.raises(BackupError, match="open-webui: its output broke off"):
        running.read(1)


@pytest.mark.parametrize("code", [1, None])
def test_the_last_line_of_a_failed_program_is_its_error(code: int | None) -> None:
    running = child(
        ScriptedStream(""),
        ScriptedStream(b"a warning\nwebui.db: SQLite ", b"reports: full\n", ""),
        code,
    )
    with pytest.raises(BackupError) as failed:
        running.wait()
    assert str(failed.value) == "open-webui: webui.db: SQLite reports: full"


def test_input_goes_in_pieces_and_ends() -> None:
    running = child(ScriptedStream(""))
    running.write(bytes(200_000))
    running.close()
    sent = cast("ScriptedStream", running._streams["0"]).sent
    assert [len(piece) for piece in sent] == [65536, 65536, 65536, 3392, 0]
    assert sent[-1] == ""
