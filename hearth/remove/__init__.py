"""Remove one service, or the whole house, back to the machine as it was before."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

_QUIET = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}


class RemoveError(Exception):
    """One line for a person: what cannot be removed, and what to do about it."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One thing to remove: its name for people, and the function that removes it.

    Every run looks for traces again and can remove one twice, so a killed removal is just repeated.
    """

    what: str
    remove: Callable[[], object]


def run(*argv: str, timeout_s: float = 120) -> str:
    """Run a program of the machine and return its output; RemoveError when it fails."""
    try:
        return subprocess.run(  # noqa: S603 - our own words and names from dpkg, no shell
            argv,
            capture_output=True,
            text=True,
            check=True,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **_QUIET},
        ).stdout
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout).strip().splitlines() or ["no error message"]
        raise RemoveError(
            f"{' '.join(argv[:3])}: {lines[-1]}: fix this, then run this again"
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RemoveError(f"{argv[0]}: {error}") from None
