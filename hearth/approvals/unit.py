"""Start the execution of a proposal as a unit of its own, outside of the caller's limits."""

import subprocess
from pathlib import Path

from hearth.approvals import ApprovalError
from hearth.approvals.proposal import checked_id

_START_S = 30
_APART = ("/usr/bin/systemd-run", "--quiet", "--collect", "--no-ask-password")


def execute_apart(root: Path, id_: str) -> None:
    """Start `hearth approve --execute ID`; it survives a restart of the caller.

    Raises:
        ApprovalError: systemd did not start it, or it runs already.
    """
    unit = f"hearth-approval-{checked_id(id_)}"
    argv = [*_APART, f"--unit={unit}", str(root / "scripts/hearth"), "approve", "--execute", id_]
    try:
        done = subprocess.run(  # noqa: S603 - our own words, and an ID
            argv, capture_output=True, text=True, check=False, timeout=_START_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ApprovalError(f"systemd does not start the approved change: {error}") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise ApprovalError(f"systemd does not start the approved change: {lines[-1]}")
