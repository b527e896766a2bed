"""Local programs, called with a deadline; a failure becomes a one-line message."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence


class LabError(Exception):
    """A one-line message: what failed in the lab, where, and what to do."""


def call(
    argv: Sequence[str], *, timeout_s: float = 60, stdin: str = "", check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return its output; `LabError` when it fails."""
    try:
        done = subprocess.run(
            list(argv), input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except FileNotFoundError:
        raise LabError(f"{argv[0]}: program not found; install its package first") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"{_short(argv)}: no end after {timeout_s:g} s") from None
    if check and done.returncode != 0:
        raise LabError(f"{_short(argv)}: exit {done.returncode}: {last_line(done)}")
    return done


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """The last line that a program printed, which usually contains the reason."""
    lines = [line.strip() for line in (done.stderr or done.stdout or "").splitlines()]
    return next((line for line in reversed(lines) if line), "no output")


def _short(argv: Sequence[str]) -> str:
    text = " ".join(argv)
    return text if len(text) <= 90 else f"{text[:87]}..."
