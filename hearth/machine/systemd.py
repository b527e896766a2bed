"""The state and the journal of a unit, in an instance or on the machine itself (`None`)."""

import os
from dataclasses import dataclass

from hearth.machine import engine
from hearth.render.quadlets import QUADLETS

_PROPERTIES = (
    "ActiveState,SubState,Result,StateChangeTimestamp,NRestarts,ExecMainCode,ExecMainStatus"
)


@dataclass(frozen=True, slots=True)
class UnitState:
    """The state of a unit, `since` a Unix time (0: always); `exit` is how its process ended last.

    `restarts` counts systemd's own restarts since the last start by hand.
    """

    active: str
    sub: str
    result: str
    since: int
    restarts: int = 0
    exit: str = ""

    @property
    def up(self) -> bool:
        """Return whether the unit is active."""
        return self.active == "active"


def unit_state(instance: str | None, unit: str) -> UnitState:
    """Return the state of one unit; EngineError if systemd does not answer there."""
    argv = ["/usr/bin/systemctl", "show", unit, "--timestamp=unix", f"--property={_PROPERTIES}"]
    done = engine.look(instance, argv, timeout=engine.READ_S)
    if done.returncode:
        raise engine.failure(instance, "systemctl", done)
    shown = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    since = shown.get("StateChangeTimestamp", "").removeprefix("@")
    return UnitState(
        active=shown.get("ActiveState", "unknown"),
        sub=shown.get("SubState", "unknown"),
        result=shown.get("Result", ""),
        since=int(since) if since.isdigit() else 0,
        restarts=int(shown.get("NRestarts", "0") or 0),
        exit=_ended(shown.get("ExecMainCode", "0"), shown.get("ExecMainStatus", "0")),
    )


def _ended(code: str, status: str) -> str:
    """Name how a process ended, from the numbers of waitid(2); empty while it runs."""
    if code == str(int(os.CLD_EXITED)):
        return f"exit code {status}"
    return f"signal {status}" if code in (str(int(os.CLD_KILLED)), str(int(os.CLD_DUMPED))) else ""


def last_log_lines(instance: str | None, unit: str, since: float = 0) -> str:
    """Return the last two lines that a unit's own processes wrote; empty when they wrote none.

    `since` is a Unix time; older lines are left out.
    """
    argv = ["/usr/bin/journalctl", "--no-pager", "--output=cat", "--lines=5"]
    argv += [f"--since=@{since:.0f}"] if since else []
    # By the cgroup, so that systemd's own lines about the unit are left out.
    argv.append(f"_SYSTEMD_UNIT={unit}")
    name = unit.removesuffix(".service")
    if instance is None and os.path.exists(f"{QUADLETS}/{name}.container"):
        # And Podman's own, which tells of every step of a container.
        argv.append(f"SYSLOG_IDENTIFIER={name}")
    log = engine.look(instance, argv, timeout=engine.READ_S).stdout
    # The last line alone is often only "giving up".
    return "; ".join([line.strip() for line in log.splitlines() if line.strip()][-2:])


def journal(instance: str | None, unit: str, lines: int) -> list[str]:
    """Return the last lines of a unit's journal, oldest first."""
    argv = [*journal_argv(unit), f"--lines={lines}"]
    return engine.look(instance, argv, timeout=engine.READ_S).stdout.splitlines()


def journal_argv(unit: str) -> list[str]:
    """Return the command that reads a unit's journal with those of its helpers.

    The journal of `ollama.service` includes `ollama-models.service`: either may explain a failure.
    """
    helpers = unit.removesuffix(".service") + "-*.service"
    return ["/usr/bin/journalctl", "--no-pager", "--output=short-iso", "-u", unit, "-u", helpers]
