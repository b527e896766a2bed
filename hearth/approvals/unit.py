"""Run `hearth approve` in a unit of its own, outside of the caller's limits."""

import json
import subprocess
from pathlib import Path
from typing import Any

from hearth.approvals import ApprovalError
from hearth.approvals.proposal import checked_id

_START_S = 30
_APART = ("/usr/bin/systemd-run", "--quiet", "--collect", "--no-ask-password")
# One that was killed starts again, and then takes back what it did.
_AGAIN = ("--property=Restart=on-abnormal", "--property=RestartSec=1")


def answer_apart(root: Path, request: bytes, within_s: float) -> dict[str, Any]:
    """Run `hearth approve --ask` with a request, and return its answer.

    Raises:
        ApprovalError: there is no proposal; the text says why.
    """
    limit = f"--property=RuntimeMaxSec={within_s:g}"
    command = [str(root / "scripts/hearth"), "approve", "--ask"]
    argv = [*_APART, *_home(), "--wait", "--pipe", limit, *command]
    done = _run(argv, "the house does not answer", within_s, request)
    try:
        answer = dict(json.loads(done))
    except (ValueError, TypeError):
        raise ApprovalError("the house does not answer: its answer is no JSON") from None
    if refused := answer.get("refused"):
        raise ApprovalError(str(refused), outside=answer.get("outside") is not False)
    return answer


def execute_apart(root: Path, id_: str) -> None:
    """Start `hearth approve --execute ID`; it survives a restart of the caller.

    Raises:
        ApprovalError: systemd did not start it, or it runs already.
    """
    unit = f"--unit=hearth-approval-{checked_id(id_)}"
    command = [str(root / "scripts/hearth"), "approve", "--execute", id_]
    argv = [*_APART, *_home(), *_AGAIN, unit, *command]
    _run(argv, "systemd does not start the approved change", _START_S)


def _home() -> list[str]:
    # A unit of root has no HOME of its own, and the password of the vault is below it.
    return [f"--setenv=HOME={Path.home()}"]


def _run(argv: list[str], problem: str, within_s: float, stdin: bytes = b"") -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 - our own words, and an ID
            argv, input=stdin, capture_output=True, check=False, timeout=within_s
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ApprovalError(f"{problem}: {error}") from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise ApprovalError(f"{problem}: {lines[-1]}", outside=True)
    return done.stdout
