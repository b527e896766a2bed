"""A house on another machine: the project goes there over ssh, and its commands run there.

The house then looks after itself: its secrets, its logs and its receipt stay on its own machine,
and a controller that is closed or lost takes nothing away.
"""

import io
import shlex
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from hearth.catalogue.pipelines import FOLDER
from hearth.cli.say import err
from hearth.project import Project

# What needs the house itself; `check`, `lock` and `lab` work on the project and stay here.
COMMANDS = frozenset(
    {
        *("up", "verify", "status", "logs", "shell", "models", "secret", "bench"),
        *("backup", "restore", "remove"),
    }
)
CLONE = "/root/hearth"
_LOCK = "sources.lock.yml"
_SEND_S = 600
_GIT_S = 120


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
        line = command if self.user == "root" else f"sudo -- /bin/bash -c {shlex.quote(command)}"
        kind = "-t" if terminal else "-T"
        return ["ssh", kind, "-p", str(self.port), f"{self.user}@{self.host}", "--", line]


def target(reach: str) -> Target:
    """Read `ssh://user@host:port`; without a user it is root, without a port 22."""
    parts = urlsplit(reach)
    return Target(parts.username or "root", parts.hostname or "", parts.port or 22)


def run(project: Project, reach: str, words: list[str]) -> int:
    """Run `hearth WORDS` on the house's own machine; `up` brings the project there first.

    Returns the exit code of the command there.
    """
    there = target(reach)
    if words[0] == "up":
        send(project, there)
        command = [f"{CLONE}/scripts/up", *words[1:]]
    else:
        command = [f"{CLONE}/scripts/hearth", *words]
    argv = there.argv(shlex.join(command), terminal=sys.stdin.isatty())
    return subprocess.run(argv, check=False).returncode  # noqa: S603 - quoted word by word


def send(project: Project, there: Target) -> None:
    """Bring the last commit and the local settings to the other machine."""
    bundle = project.root / ".hearth" / "afar.bundle"
    bundle.parent.mkdir(exist_ok=True)
    git = ["git", "-C", str(project.root)]
    _call([*git, "bundle", "create", "--quiet", str(bundle), "HEAD"], _GIT_S)
    changed = _call([*git, "status", "--porcelain", "--untracked-files=no"], _GIT_S)
    if changed:
        err.print("[yellow]note:[/yellow] what you have not committed is left out")
    err.print(f"[dim]        [/dim]  Bring the project to {there.host}")
    _call(there.argv("cat > /root/hearth.bundle"), _SEND_S, bundle.read_bytes())
    bundle.unlink()
    _call(there.argv(_CHECK_OUT), _SEND_S)
    recorded = _call(there.argv(f"cat {CLONE}/inventory/local/{_LOCK} 2>/dev/null || true"), _GIT_S)
    settings = local_settings(project.inventory / "local", recorded)
    _call(there.argv(take_settings(f"{CLONE}/inventory")), _SEND_S, settings)


_CHECK_OUT = (
    "set -e; command -v git >/dev/null || { apt-get -qq update; "
    "DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends git; }; "
    f"[ -d {CLONE} ] || git clone --quiet /root/hearth.bundle {CLONE}; cd {CLONE}; "
    "git fetch --quiet /root/hearth.bundle HEAD; git checkout --quiet --force --detach FETCH_HEAD; "
    "rm /root/hearth.bundle"
)


def take_settings(inventory: str) -> str:
    """Return the shell line that replaces `local` there by the tar that it reads.

    Only whole settings come into their place: a broken connection must not lose the digests of
    first sight, which are nowhere else.
    """
    return (
        f"set -e; cd {inventory}; rm -rf local.new; mkdir -p local local.new/local/{FOLDER}; "
        "tar -x -C local.new; "
        'for old in local/*.yml; do [ -e "local.new/$old" ] || rm -f "$old"; done; '
        'for new in local.new/local/*.yml; do [ ! -e "$new" ] || mv "$new" local/; done; '
        f"rm -rf local/{FOLDER}; mv local.new/local/{FOLDER} local/; rm -r local.new"
    )


def local_settings(folder: Path, recorded: str) -> bytes:
    """Pack `inventory/local` for the other machine.

    Args:
        folder: The controller's own settings.
        recorded: The lock file there: digests of first sight are the house's own and stay.

    Returns:
        A tar whose only top entry is `local/`.
    """
    documents = {path.name: yaml.safe_load(path.read_text()) or {} for path in folder.glob("*.yml")}
    for record in (documents.get("machines.yml", {}).get("machines") or {}).values():
        # There the house is at home; with this line it would go looking for itself.
        record.pop("reach", None)
    lock = yaml.safe_load(recorded) or {}
    for section, entries in documents.get(_LOCK, {}).items():
        lock[section] = {**lock.get(section, {}), **(entries or {})}
    if lock:
        documents[_LOCK] = lock
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, document in sorted(documents.items()):
            text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode()
            entry = tarfile.TarInfo(f"local/{name}")
            entry.size, entry.mode = len(text), 0o600
            archive.addfile(entry, io.BytesIO(text))
        for path in sorted((folder / FOLDER).glob("*.py")):
            archive.add(path, f"local/{FOLDER}/{path.name}")
    return packed.getvalue()


def _call(argv: list[str], seconds: float, data: bytes = b"") -> str:
    try:
        done = subprocess.run(  # noqa: S603 - fixed words, no shell here
            argv, input=data, capture_output=True, check=True, timeout=seconds
        )
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines() or ["nothing said"]
        raise AfarError(f"{argv[0]} ({argv[-2]}): {lines[-1]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AfarError(f"{argv[0]}: {error}") from None
    return done.stdout.decode(errors="replace")
