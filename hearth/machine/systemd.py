"""What systemd says of a unit, in an instance or on the machine itself (`None`)."""

import os
from dataclasses import dataclass

from hearth.machine import engine


@dataclass(frozen=True, slots=True)
class UnitState:
    """What systemd says of a unit.

    `since` is a Unix time, 0 when it never changed; `restarts` counts how often systemd has started
    it again since somebody did; `exit` is how its main process ended last.
    """

    active: str
    sub: str
    result: str
    since: int
    restarts: int = 0
    exit: str = ""

    @property
    def up(self) -> bool:
        """Say whether the unit does its work."""
        return self.active == "active"


def unit_state(instance: str | None, unit: str) -> UnitState:
    """Return what systemd says of one unit.

    Raises:
        EngineError: systemd does not answer there.
    """
    argv = ["/usr/bin/systemctl", "show", unit, "--timestamp=unix"]
    argv.append(
        "--property=ActiveState,SubState,Result,StateChangeTimestamp,NRestarts,"
        "ExecMainCode,ExecMainStatus"
    )
    try:
        done = engine.execute(instance, argv, timeout=engine.READ_S)
    except engine.OutputLost:
        # On a busy machine Incus does that now and then, which is no reason to call a service down.
        done = engine.execute(instance, argv, timeout=engine.READ_S)
    if done.returncode:
        raise engine.refusal(instance, "systemctl", done)
    said = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    since = said.get("StateChangeTimestamp", "").removeprefix("@")
    return UnitState(
        active=said.get("ActiveState", "unknown"),
        sub=said.get("SubState", "unknown"),
        result=said.get("Result", ""),
        since=int(since) if since.isdigit() else 0,
        restarts=int(said.get("NRestarts", "0") or 0),
        exit=_ended(said.get("ExecMainCode", "0"), said.get("ExecMainStatus", "0")),
    )


def _ended(code: str, status: str) -> str:
    """Say how a process ended, from the numbers of waitid(2); empty while it has not."""
    if code == str(int(os.CLD_EXITED)):
        return f"exit code {status}"
    return f"signal {status}" if code in (str(int(os.CLD_KILLED)), str(int(os.CLD_DUMPED))) else ""


def last_words(instance: str | None, unit: str) -> str:
    """Return the last two lines that a unit's own processes wrote; empty when they wrote none.

    Raises:
        EngineError: the instance or the engine is not there.
    """
    argv = ["/usr/bin/journalctl", "--no-pager", "--output=cat", "--lines=5"]
    # By the cgroup, so that systemd's own lines about the unit are left out.
    said = engine.execute(instance, [*argv, f"_SYSTEMD_UNIT={unit}"], timeout=engine.READ_S).stdout
    # The very last is often only that it gives up.
    return "; ".join([line.strip() for line in said.splitlines() if line.strip()][-2:])


def journal(instance: str | None, unit: str, lines: int) -> list[str]:
    """Return the last lines of a unit's journal, oldest first.

    Raises:
        EngineError: the instance or the engine is not there.
    """
    argv = [*journal_argv(unit), f"--lines={lines}"]
    return engine.execute(instance, argv, timeout=engine.READ_S).stdout.splitlines()


def journal_argv(unit: str) -> list[str]:
    """Return the command that reads a unit's journal with those of its helpers.

    `ollama.service` brings `ollama-models.service` along: whoever asks why a service is
    down wants its helpers too.
    """
    helpers = unit.removesuffix(".service") + "-*.service"
    return ["/usr/bin/journalctl", "--no-pager", "--output=short-iso", "-u", unit, "-u", helpers]
