"""Reach an Incus instance through the Incus API instead of the `incus exec` command.

`incus exec` loses output when several run at once (docs/decisions/001); the API does not.
"""

from __future__ import annotations

DOCUMENTATION = """
name: incus_api
short_description: Run tasks in Incus instances through the Incus API
description: Runs commands and moves files over the Unix socket of Incus, with pylxd.
author: Hearth
options:
  remote_addr:
    description: Name of the instance.
    default: inventory_hostname
    vars:
      - name: inventory_hostname
      - name: ansible_host
      - name: ansible_incus_instance
  socket:
    description: Path of the API's Unix socket.
    default: /var/lib/incus/unix.socket
    vars:
      - name: ansible_incus_socket
  pipelining:
    description: Send modules through standard input instead of copying them.
    type: boolean
    default: true
    ini:
      - section: connection
        key: pipelining
    vars:
      - name: ansible_pipelining
"""

import contextlib
import os
import typing as t
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure, AnsibleFileNotFound
from ansible.plugins.connection import ConnectionBase
from pylxd import Client
from pylxd.exceptions import ClientConnectionFailed, LXDAPIException, NotFound

from hearth.machine import runs
from hearth.machine.engine import EngineError, run_inside


def _mark() -> dict[str, str]:
    """Mark processes inside with this run's name, so that the next run can wait for their end."""
    return {key: value for key, value in os.environ.items() if key == runs.MARK}


class Connection(ConnectionBase):
    """One Incus instance, reached over the API's socket."""

    transport = "incus_api"
    has_pipelining = True
    _connected: bool

    def __init__(self, *args: t.Any, **kwargs: t.Any) -> None:
        """Take Ansible's arguments; nothing is opened before the first command."""
        super().__init__(*args, **kwargs)
        self._client: t.Any = None
        self._instance: t.Any = None

    def _connect(self) -> Connection:
        if self._connected:
            return self
        name, socket = self.get_option("remote_addr"), self.get_option("socket")
        try:
            self._client = Client(endpoint=socket)
            self._instance = self._client.instances.get(name)
        except NotFound:
            raise AnsibleConnectionFailure(f"Incus has no instance {name!r}") from None
        except (ClientConnectionFailed, LXDAPIException) as error:
            raise AnsibleConnectionFailure(f"Incus does not answer on {socket}: {error}") from error
        self._connected = True
        return self

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        """Run one shell line as root in the instance; return exit code, output and errors."""
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        try:
            result = run_inside(
                self._client,
                self._instance.name,
                ["/bin/sh", "-c", cmd],
                stdin=in_data or b"",
                environment={"HOME": "/root", "LANG": "C.UTF-8", **_mark()},
                socket=self.get_option("socket"),
            )
        except (EngineError, LXDAPIException, OSError) as error:
            raise AnsibleConnectionFailure(
                f"instance {self._instance.name!r} takes no command: {error}"
            ) from error
        return result.returncode, result.stdout, result.stderr

    def put_file(self, in_path: str, out_path: str) -> None:
        """Copy a file of the controller into the instance."""
        source = Path(in_path)
        if not source.is_file():
            raise AnsibleFileNotFound(f"{in_path} is not there")
        self._instance.files.put(out_path, source.read_bytes(), mode="0600", uid=0, gid=0)

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Copy a file of the instance to the controller."""
        Path(out_path).write_bytes(self._instance.files.get(in_path))

    def close(self) -> None:
        """Forget the instance; the API keeps no session."""
        with contextlib.suppress(AttributeError):
            self._instance = None
        self._connected = False
