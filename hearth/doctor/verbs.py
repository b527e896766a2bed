"""The few things that the watcher does for people, asked over a socket by the page.

One line of JSON is a request, and one is the answer. The caller names a finding or a model; which
of them exist, and what is done about them, only the watcher knows.
"""

import asyncio
import contextlib
import json
import pwd
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from hearth.clients.endpoints import one_line
from hearth.doctor.snapshot import share

Act = Callable[[str], str]
"""Does one thing with what the caller named, and says what it did; it raises `RefusedError`."""

_LINE, _TEXT = 2048, 4000
# A caller that says nothing is sent away.
_ASK_S, _CONNECTIONS = 5.0, 16


class RefusedError(Exception):
    """One line for a person: why nothing was done."""


class Verbs:
    """A socket that carries out a fixed list of verbs, one at a time of each."""

    def __init__(self, path: Path, user: str, verbs: Mapping[str, tuple[str, Act]]) -> None:
        """Serve `verbs`, each with the field that it reads, to root and to one user."""
        self._path, self._user, self._verbs = path, user, verbs
        self._busy: set[str] = set()
        self._open = 0

    async def serve(self) -> None:
        """Answer until this is cancelled."""
        self._path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._answer, self._path, limit=_LINE)
        async with server:
            while True:
                # The page's user may be made later.
                share(self._path, self._user)
                await asyncio.sleep(60)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= _CONNECTIONS:
                answer = await self._request(reader, _peer(writer))
                writer.write(json.dumps(answer).encode() + b"\n")
                async with asyncio.timeout(_ASK_S):
                    await writer.drain()
        except (OSError, TimeoutError):
            # The caller is gone; what it asked for is done and in the journal.
            pass
        finally:
            self._open -= 1
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, uid: int) -> dict[str, object]:
        """Carry out one request, and write one line about it into the journal."""
        shown = "a request"
        try:
            async with asyncio.timeout(_ASK_S):
                line = await reader.readline()
            if uid not in self._allowed():
                raise RefusedError("only the page and root may call the watcher")
            verb, act, value = self._read(line)
            shown = f"{verb} {value}"
            good, text = True, await self._one_at_a_time(verb, act, value)
        except RefusedError as error:
            good, text = False, str(error)
        except (TimeoutError, ValueError):
            good, text = False, "invalid request: expected one line of JSON"
        except Exception as error:  # a verb that fails must not end the watcher
            good, text = False, f"{type(error).__name__}: {error}"
        outcome = "done" if good else "refused or failed"
        print(one_line(f"{shown} (user {uid}): {outcome}: {text}"), file=sys.stderr, flush=True)
        return {"ok": good, "text": text[:_TEXT]}

    def _allowed(self) -> set[int]:
        allowed = {0}
        with contextlib.suppress(KeyError):
            allowed.add(pwd.getpwnam(self._user).pw_uid)
        return allowed

    def _read(self, line: bytes) -> tuple[str, Act, str]:
        found = json.loads(line)
        verb = found.get("verb") if isinstance(found, dict) else None
        if not isinstance(verb, str) or verb not in self._verbs:
            raise RefusedError(f"known verbs are {', '.join(self._verbs)}")
        field, act = self._verbs[verb]
        value = found.get(field)
        if not isinstance(value, str) or found.keys() != {"verb", field}:
            raise RefusedError(f"{verb} needs one text, {field}")
        return verb, act, value

    async def _one_at_a_time(self, verb: str, act: Act, value: str) -> str:
        if verb in self._busy:
            raise RefusedError(f"another {verb} is under way: wait for its end")
        self._busy.add(verb)
        try:
            return await asyncio.to_thread(act, value)
        finally:
            self._busy.discard(verb)


def _peer(writer: asyncio.StreamWriter) -> int:
    """Return the user at the other end, as the kernel knows it."""
    connection = writer.get_extra_info("socket")
    size = struct.calcsize("3i")
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack("3i", raw)[1])
