"""The way to the house's own machine: ssh, as root or by sudo."""

import shlex
import subprocess
from dataclasses import dataclass
from urllib.parse import urlsplit

# ssh's own exit code: the connection, not the command.
LOST = 255


class AfarError(Exception):
    """One line for a person: what of the way to the other machine failed."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the house lives: what `reach: ssh://user@host:port` says."""

    user: str
    host: str
    port: int

    def argv(self, command: str, *, terminal: bool = False) -> list[str]:
        """Return the ssh command that runs one shell line there as root."""
        line = command
        if self.user != "root":
            # From where somebody comes is said to whom he keeps waiting; sudo would forget it.
            known = 'env "SSH_CONNECTION=$SSH_CONNECTION"'
            line = f"sudo -- {known} /bin/bash -c {shlex.quote(command)}"
        kind = "-t" if terminal else "-T"
        # A network that is gone says nothing by itself: a minute of silence counts as lost.
        alive = ["-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"]
        return ["ssh", kind, *alive, "-p", str(self.port), f"{self.user}@{self.host}", "--", line]


def target(reach: str) -> Target:
    """Read `ssh://user@host:port`; without a user it is root, without a port 22."""
    parts = urlsplit(reach)
    return Target(parts.username or "root", parts.hostname or "", parts.port or 22)


def call(argv: list[str], seconds: float, data: bytes = b"") -> str:
    """Run git or ssh within its deadline and return its output.

    Raises:
        AfarError: it failed or took too long.
    """
    who = f"ssh {argv[-3]}" if argv[0] == "ssh" else " ".join(argv[:1] + argv[3:4])
    try:
        done = subprocess.run(  # noqa: S603 - fixed words, no shell here
            argv, input=data, capture_output=True, check=True, timeout=seconds
        )
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines() or ["nothing said"]
        hint = ""
        if argv[0] == "ssh" and error.returncode == LOST:
            hint = f": `ssh -p {argv[-4]} {argv[-3]}` must let you in without a question"
        raise AfarError(f"{who}: {lines[-1].strip()}{hint}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AfarError(f"{who}: {error}") from None
    return done.stdout.decode(errors="replace")
