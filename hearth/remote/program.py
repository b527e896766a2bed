"""What the controller runs on the machine of a remote house: it is sent there over ssh.

There it has the standard library of Debian's python3 and nothing else. The options of a command are
JSON on its standard input, so that no user of the machine reads them from a command line.
"""

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

# It separates a command's output from what a login shell prints.
MARK = "--hearth--"
_PAUSE_S = 0.1
# The digests of the settings that came last.
_SENT = ".sent"
_HOLDER = "settings are coming from another machine"


def state(root: str, lock: str, within_s: float, digests: str) -> None:
    """Print the commit there, the holder of the lock after a wait, and the sources' lock file."""
    argv = ["git", "-C", root, "rev-parse", "-q", "--verify", "HEAD"]
    commit = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603
    held = ""
    if not _take_lock(_opened(lock), within_s):
        held = "held by " + (Path(lock).read_text(encoding="utf-8").splitlines() or [""])[0]
    path = Path(root, digests)
    recorded = path.read_text(encoding="utf-8") if path.exists() else ""
    found = {"commit": commit.stdout.strip(), "holder": held, "recorded": recorded}
    print(f"{MARK}\n{json.dumps(found)}")


def take(
    root: str,
    lock: str,
    within_s: float,
    bundle: str,
    settings: dict[str, str],
    commit: str,
    digests: str,
    folder: str,
    notes: dict[str, str],
    noted: str,
) -> None:
    """Check out a commit, and replace the local settings.

    The bundle is base64, and empty where the commit is there already. `noted` lists the packages
    that were there before git was installed for Hearth; `notes` are the files of the project that
    keep such lists for `hearth remove --all`.
    """
    project, file = Path(root), Path(f"{root}.bundle")

    def check_out() -> None:
        # Also where the commit was there already: its files may have been edited by hand.
        _git("-C", root, "checkout", "--quiet", "--force", "--detach", commit)

    with _alone(lock, within_s):
        if bundle:
            file.write_bytes(base64.b64decode(bundle))
            if not project.is_dir():
                # A clone that was interrupted must not pass for a whole one.
                shutil.rmtree(f"{root}.new", ignore_errors=True)
                _git("clone", "--quiet", str(file), f"{root}.new")
                Path(f"{root}.new").rename(project)
            if Path(noted).exists():
                _keep_notes(project, Path(noted), **notes)
            _git("-C", root, "fetch", "--quiet", str(file), "HEAD")
            file.unlink()
        replace_settings(project / "inventory", settings, digests, folder, check_out)


def _keep_notes(
    project: Path, noted: Path, earlier: str, ansible: str, no_ansible: str, brought: str
) -> None:
    (project / earlier).parent.mkdir(exist_ok=True)
    with (project / brought).open("a") as file:
        file.write("git\n")
    if (project / earlier).exists():
        noted.unlink()
        return
    if not Path(ansible).exists():
        (project / no_ansible).touch()
    shutil.move(noted, project / earlier)


def replace_settings(
    inventory: Path,
    settings: Mapping[str, str],
    digests: str,
    folder: str,
    before: Callable[[], None],
) -> None:
    """Replace `local` of the inventory by `settings`, and call `before` before anything changes.

    The digests trusted on first use are nowhere else, and come back with the settings. Settings
    that were made on this machine are never lost: with one that this function did not put there and
    `settings` does not have, it refuses.
    """
    local, new = inventory / "local", inventory / "local.new"
    shutil.rmtree(new, ignore_errors=True)
    (new / folder).mkdir(parents=True)
    local.mkdir(exist_ok=True)
    for name, text in settings.items():
        (new / name).write_bytes(text.encode(errors="surrogateescape"))
        (new / name).chmod(0o600)
    sent, fresh = local / _SENT, [_digest(path) for path in _settings(new, folder)]
    known = {*fresh, *(sent.read_text().split() if sent.exists() else ())}
    theirs = [
        str(path.relative_to(local))
        for path in _settings(local, folder)
        if path.name != digests and _digest(path) not in known
    ]
    if theirs:
        shutil.rmtree(new)
        sys.exit(
            f"{local} has settings that did not come from here ({' '.join(theirs)}): copy what you "
            "want to keep of them into inventory/local here, delete them there, then run this again"
        )
    before()
    # Noted before they come: after an interruption they must not pass for settings made there.
    listed = "".join(f"{digest}\n" for digest in fresh)
    with sent.open("a") as file:
        file.write(listed)
    for path in local.glob("*.yml"):
        if path.name not in settings:
            path.unlink()
    for path in sorted(new.glob("*.yml")):
        path.replace(local / path.name)
    shutil.rmtree(local / folder, ignore_errors=True)
    (new / folder).rename(local / folder)
    (new / _SENT).write_text(listed)
    (new / _SENT).replace(sent)
    new.rmdir()


def follow(
    root: str, runtime: str, unit: str, command: str, columns: int, file: str, values: str
) -> None:
    """Run a shell command as a unit of systemd, print its lines, and exit with its code.

    The lines go through a file: a pipe would break with the connection, and the run with it. The
    unit's own folder has `values` in `file`.
    """
    folder, log = Path(runtime, unit), Path(root, ".hearth/logs", f"{unit}.log")
    folder.mkdir(mode=0o700)
    with open(os.open(folder / file, os.O_WRONLY | os.O_CREAT, 0o600), "w") as target:
        target.write(values)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    origin = os.environ.get("SSH_CONNECTION", "")
    argv = [
        *("systemd-run", "--quiet", "--collect", "--wait", f"--unit={unit}"),
        *("--service-type=exec", f"--property=StandardOutput=append:{log}"),
        *(f"--property=StandardError=append:{log}", f"--property=RuntimeDirectory={unit}"),
        *("--property=RuntimeDirectoryMode=0700", "--property=OOMPolicy=continue"),
        *(f"--working-directory={root}", "--setenv=HOME=/root", "--setenv=USER=root"),
        *(f"--setenv=COLUMNS={columns}", f"--setenv=SSH_CONNECTION={origin}"),
        *("/bin/bash", "-c", command),
    ]
    run = subprocess.Popen(argv, stdin=subprocess.DEVNULL)  # noqa: S603 - no shell
    with run, log.open("rb") as lines:
        connected = True
        while (ended := run.poll()) is None or connected:
            text = lines.read()
            if ended is not None and not text:
                break
            try:
                os.write(1, text)
            except BrokenPipeError:
                # The controller is gone; the folder still has to be removed at the end.
                connected = False
            time.sleep(0 if ended is not None else _PAUSE_S)
    shutil.rmtree(folder, ignore_errors=True)
    sys.exit(run.returncode)


def _opened(lock: str) -> int:
    """Open the lock: who can read it can also hold it, so only root may."""
    file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    os.fchmod(file, 0o600)
    return file


def _take_lock(file: int, within_s: float) -> bool:
    """Lock the open file within this time, and return whether that was possible."""
    deadline = time.monotonic() + within_s
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)


@contextlib.contextmanager
def _alone(lock: str, within_s: float) -> Iterator[None]:
    """Hold the lock while no run of site.yml is active."""
    file = _opened(lock)
    # What it starts holds it, too, and so outlives it safely.
    os.set_inheritable(file, True)
    if not _take_lock(file, within_s):
        sys.exit(f"the active run there did not end in {within_s:g} s")
    os.ftruncate(file, 0)
    os.pwrite(file, f"{_HOLDER}\n".encode(), 0)
    yield
    os.close(file)


def _git(*words: str) -> None:
    done = subprocess.run(  # noqa: S603 - no shell
        ["git", *words],  # noqa: S607 - the machine's own
        close_fds=False,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        sys.exit(done.returncode)


def _settings(local: Path, folder: str) -> list[Path]:
    found = (*sorted(local.glob("*.yml")), *sorted((local / folder).glob("*")))
    return [path for path in found if path.is_file()]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _main() -> None:
    try:
        options = json.load(sys.stdin.buffer)
    except ValueError:
        sys.exit("the connection broke, and nothing was changed")
    commands: dict[str, Callable[..., None]] = {"state": state, "take": take, "follow": follow}
    commands[sys.argv[-1]](**options)


if __name__ == "__main__":
    _main()
