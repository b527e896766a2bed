"""What the controller runs on the machine of a remote house: it is sent there over ssh.

There it has the standard library of Debian's python3 and nothing else.
"""

import contextlib
import fcntl
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

# It separates a command's output from what a login shell prints.
MARK = "--hearth--"
_PAUSE_S = 0.1
# The digests of the settings that came last.
_SENT = "local/.sent"
_HOLDER = "settings are coming from another machine"


def state(root: str, lock: str, digests: str) -> None:
    """Print the commit there, who holds the lock, and the lock file of the sources."""
    argv = ["git", "-C", root, "rev-parse", "-q", "--verify", "HEAD"]
    commit = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603
    file = _opened(lock)
    held = ""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held = "held by " + (Path(lock).read_text(encoding="utf-8").splitlines() or [""])[0]
    path = Path(root, digests)
    recorded = path.read_text(encoding="utf-8") if path.exists() else ""
    found = {"commit": commit.stdout.strip(), "holder": held, "recorded": recorded}
    print(f"{MARK}\n{json.dumps(found)}")


def wait(lock: str, within_s: float) -> None:
    """Wait until no run of site.yml is active there."""
    with _alone(lock, within_s):
        pass


def take(
    root: str,
    lock: str,
    within_s: float,
    sizes: tuple[int, int],
    commit: str,
    digests: str,
    folder: str,
    notes: dict[str, str],
    noted: str,
) -> None:
    """Check out a commit, and replace the local settings; both come on standard input.

    They are a bundle, empty where the commit is there already, and a tar, of these sizes. `noted`
    lists the packages that were there before git was installed for Hearth; `notes` are the files of
    the project that keep such lists for `hearth remove --all`.
    """
    project, bundle = Path(root), Path(f"{root}.bundle")

    def check_out() -> None:
        # Also where the commit was there already: its files may have been edited by hand.
        _git("-C", root, "checkout", "--quiet", "--force", "--detach", commit)

    with _alone(lock, within_s):
        given, settings = map(_read, sizes)
        if given:
            bundle.write_bytes(given)
            if not project.is_dir():
                # A clone that was interrupted must not pass for a whole one.
                shutil.rmtree(f"{root}.new", ignore_errors=True)
                _git("clone", "--quiet", str(bundle), f"{root}.new")
                Path(f"{root}.new").rename(project)
            if Path(noted).exists():
                _keep_notes(project, Path(noted), **notes)
            _git("-C", root, "fetch", "--quiet", str(bundle), "HEAD")
            bundle.unlink()
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
    inventory: Path, tar: bytes, digests: str, folder: str, before: Callable[[], None]
) -> None:
    """Replace `local` of the inventory by a tar's, and call `before` before anything changes.

    Whole settings take their place: the digests trusted on first use are nowhere else. Settings
    that were made on this machine are never lost: with one that this function did not put there and
    the tar does not have, it refuses.
    """
    local, new = inventory / "local", inventory / "local.new"
    shutil.rmtree(new, ignore_errors=True)
    (new / "local" / folder).mkdir(parents=True)
    local.mkdir(exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        for entry in archive:
            content = archive.extractfile(entry)
            if content is not None:
                (new / entry.name).write_bytes(content.read())
                (new / entry.name).chmod(0o600)
    sent, fresh = inventory / _SENT, [_digest(path) for path in _settings(new / "local", folder)]
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
        if not (new / "local" / path.name).exists():
            path.unlink()
    for path in sorted((new / "local").glob("*.yml")):
        path.replace(local / path.name)
    shutil.rmtree(local / folder, ignore_errors=True)
    (new / "local" / folder).rename(local / folder)
    (new / "sent").write_text(listed)
    (new / "sent").replace(sent)
    shutil.rmtree(new)


def follow(
    root: str, runtime: str, unit: str, command: str, columns: int, values: str, size: int
) -> None:
    """Run a shell command as a unit of systemd, print its lines, and exit with its code.

    The lines go through a file: a pipe would break with the connection, and the run with it.
    """
    folder, log = Path(runtime, unit), Path(root, ".hearth/logs", f"{unit}.log")
    given = _read(size)
    folder.mkdir(mode=0o700)
    with open(os.open(folder / values, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.write(given)
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


@contextlib.contextmanager
def _alone(lock: str, within_s: float) -> Iterator[None]:
    """Hold the lock while no run of site.yml is active."""
    file = _opened(lock)
    # What it starts holds it, too, and so outlives it safely.
    os.set_inheritable(file, True)
    deadline = time.monotonic() + within_s
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        if time.monotonic() > deadline:
            sys.exit(f"the active run there did not end in {within_s:g} s")
        time.sleep(_PAUSE_S)
    os.ftruncate(file, 0)
    os.pwrite(file, f"{_HOLDER}\n".encode(), 0)
    yield
    os.close(file)


def _read(size: int) -> bytes:
    data = sys.stdin.buffer.read(size)
    if len(data) != size:
        sys.exit("the connection broke, and nothing was changed")
    return data


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


if __name__ == "__main__":
    _commands = {f.__name__: f for f in (state, wait, take, follow)}
    _commands[sys.argv[-2]](**json.loads(sys.argv[-1]))
