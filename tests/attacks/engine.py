"""A stand-in for Incus and systemd: what services log, and every change that is made to them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

from hearth.machine import engine, outside
from hearth.sandbox import command, lifecycle
from hearth.sandbox.lifecycle import Sandbox

_STARTED = 1_700_000_000


class Engine:
    """The services' instances as the broker finds them: all are active."""

    def __init__(self) -> None:
        self.changes: list[tuple[str | None, tuple[str, ...]]] = []
        """What was run in an instance or on the machine, apart from what only reads."""
        self._logs: dict[str, str] = {}
        self._broken: dict[str, str] = {}
        self._since: dict[str, int] = {}
        self._sandboxes: dict[str, Sandbox] = {}
        self._says: dict[str, str] = {}

    def says(self, sandbox: str, text: str) -> None:
        """Let every command and file in a sandbox consist of a text."""
        self._says[sandbox] = text

    def log(self, instance: str, text: str) -> None:
        """Let a service have written this last."""
        self._logs[instance] = text

    def cannot_be_read(self, instance: str, text: str) -> None:
        """Let the journal of a service end with an error."""
        self._broken[instance] = text

    def restarted(self, instance: str) -> None:
        """Let a service have restarted by itself."""
        self._since[instance] = self._since.get(instance, _STARTED) + 60

    def execute(
        self,
        instance: str | None,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: str | bytes | None = None,
    ) -> engine.Completed:
        """Answer as a service's instance does."""
        del timeout, stdin
        where = instance or "machine"
        if argv[:2] == ["/usr/bin/systemctl", "show"]:
            since = self._since.get(where, _STARTED)
            shown = f"ActiveState=active\nSubState=running\nStateChangeTimestamp=@{since}\n"
            return engine.Completed(0, shown, "")
        if argv[0] == "/bin/sh" and "/usr/bin/journalctl" in argv:
            most = int(argv[4])
            if broken := self._broken.get(where):
                return engine.Completed(1, broken[-most:], "")
            return engine.Completed(0, self._logs.get(where, "started")[-most:], "")
        self.changes.append((instance, tuple(argv)))
        return engine.Completed(1, "", "the stand-in does nothing")

    def _all(self, _: Any) -> list[Sandbox]:
        return [*self._sandboxes.values()]

    def _make(self, _: Any, sandbox: Sandbox, *__: Any) -> float:
        now = time.time()
        self._sandboxes[sandbox.name] = replace(sandbox, ready=now)
        return now

    def _collect(
        self, name: str, argv: Sequence[str], stdin: bytes, kept: Mapping[str, Any]
    ) -> int:
        # Only what the broker made is a sandbox; anything else is the house.
        if name not in self._sandboxes:
            self.changes.append((name, tuple(argv)))
        kept[engine.STREAMS[1]].add(self._says.get(name, "").encode())
        return 0

    def _read_file(self, name: str, path: str) -> bytes:
        if name not in self._sandboxes:
            self.changes.append((name, (path,)))
        return self._says.get(name, "").encode()

    @contextlib.contextmanager
    def _sandboxes_installed(self) -> Iterator[None]:
        """Keep sandboxes here; their names, owners, number and limits are judged as ever."""
        with (
            mock.patch.object(lifecycle, "connect"),
            mock.patch.object(lifecycle, "_refuse_without_room"),
            mock.patch.object(lifecycle, "_all", self._all),
            mock.patch.object(lifecycle, "_make", self._make),
            mock.patch.object(lifecycle, "_delete", lambda _, name: self._sandboxes.pop(name, 0)),
            mock.patch.object(command, "_collect", self._collect),
            mock.patch.object(outside, "read_file", self._read_file),
        ):
            yield

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Put it in the place of the machine's engine."""
        with (
            mock.patch.object(engine, "execute", self.execute),
            mock.patch.object(engine, "is_running", return_value=True),
            self._sandboxes_installed(),
        ):
            yield
