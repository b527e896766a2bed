"""Let one run of site.yml at a time work on a machine: the lock dies with it and names it."""

from __future__ import annotations

DOCUMENTATION = """
name: one_run
type: notification
short_description: One run of site.yml at a time
description: Holds a lock of this machine while site.yml runs, with all that it started, and ends a
  second run before its first task.
author: Hearth
options:
  lock:
    description: The file that is locked.
    type: path
    default: /run/hearth.lock
    env:
      - name: HEARTH_RUN_LOCK
"""

import contextlib
import sys
from pathlib import Path
from typing import Any

from ansible.playbook import Playbook
from ansible.plugins.callback import CallbackBase

from hearth.files import LockHeldError, locked

PLAYBOOK = "site.yml"


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Lives in Ansible's own process, from the first play to the last."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "one_run"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Hold nothing yet."""
        super().__init__(*args, **kwargs)
        self._held = contextlib.ExitStack()

    def v2_playbook_on_start(self, playbook: Playbook) -> None:
        """Take the lock, or end here."""
        if Path(playbook._file_name).name != PLAYBOOK:
            return
        try:
            self._held.enter_context(locked(Path(self.get_option("lock")), within_s=0))
        except LockHeldError as error:
            self._display.error(f"another run is at work on this machine: {error}")
            # Anything else that a callback raises is a warning to Ansible.
            sys.exit(1)
