"""One suite for every engine: real Incus, real Podman and real Docker, each with a real instance.

It runs on a machine that has them all, such as a lab machine (tests/lab/test_engines.py). An engine
that is not there fails here: a suite that skips proves nothing.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from hearth.machine import engines
from hearth.machine.engine import EngineError, OutputLost
from hearth.machine.engines import Containers, Engine, Incus, PathMissing

NAME = "conformance"
IMAGE = "localhost/conformance:latest"
LINES = ("the first line", "the last line")
# Of Debian's static busybox, which every engine can run as it is.
APPLETS = ("sh", "cat", "sleep", "true", "id", "echo", "mkdir", "chmod", "chown", "ln", "stat")
MAIN = f"echo {LINES[0]}; echo {LINES[1]}; trap exit TERM; while :; do sleep 0.2; done"
BIG = os.urandom(3 << 20)
WITHIN_S = 30


@dataclass(frozen=True)
class Tried:
    """An engine with one running instance."""

    engine: Engine

    def run(self, *argv: str, stdin: bytes = b"", timeout: float = WITHIN_S) -> tuple[int, bytes]:
        """Run a command in the instance; return its exit code and output."""
        done = self.engine.execute(NAME, argv, timeout=timeout, stdin=stdin)
        return done.returncode, done.stdout

    def until(self, *, running: bool) -> None:
        """Wait until the engine reports the instance as running, or as stopped."""
        end = time.monotonic() + WITHIN_S
        while self.engine.inspect(NAME).running is not running:
            assert time.monotonic() < end, "it takes too long"
            time.sleep(0.1)


def call(*argv: str, stdin: bytes = b"") -> None:
    done = subprocess.run(argv, input=stdin, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, f"{argv}: {done.stderr.decode()}"


def small_root() -> bytes:
    """Return a root with a shell, as a tar file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(shutil.which("busybox") or "/usr/bin/busybox", "bin/busybox")
        for applet in APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
    return packed.getvalue()


def made_container(engine: Containers) -> Iterator[Tried]:
    program = engine.name
    call(program, "import", "-", IMAGE, stdin=small_root())
    try:
        options = ["--pids-limit=0", "--label=conformance=yes", "--name", NAME]
        call(program, "run", "--detach", *options, IMAGE, "/bin/sh", "-c", MAIN)
        yield Tried(engine)
    finally:
        subprocess.run([program, "rm", "--force", NAME], capture_output=True, check=False)
        subprocess.run([program, "image", "rm", "--force", IMAGE], capture_output=True, check=False)


def made_instance() -> Iterator[Tried]:
    from pylxd import Client

    from hearth.machine.instances import wait_ready

    engine = Incus()
    client = Client(endpoint="/var/lib/incus/unix.socket")
    images = [image for image in client.images.all() if image.aliases]
    source = {"type": "image", "fingerprint": images[0].fingerprint}
    config = {"user.conformance": "yes"}
    devices = {"root": {"type": "disk", "path": "/", "pool": "hearth"}}
    wanted = {"name": NAME, "source": source, "config": config, "devices": devices, "profiles": []}
    made = client.instances.create(wanted, wait=True)
    try:
        made.start(wait=True)
        wait_ready(client, made)
        for line in LINES:
            engine.execute(NAME, ["systemd-cat", "echo", line], timeout=WITHIN_S)
        yield Tried(engine)
    finally:
        made.stop(force=True, wait=True)
        made.delete(wait=True)


@pytest.fixture(scope="module", params=["incus", "podman", "docker"])
def tried(request: pytest.FixtureRequest) -> Iterator[Tried]:
    """Each engine in turn, with an instance of ours."""
    if request.param == "incus":
        yield from made_instance()
    else:
        yield from made_container(getattr(engines, request.param)())


def test_it_is_listed_and_inspected(tried: Tried) -> None:
    found = {one.name: one for one in tried.engine.instances()}
    assert found[NAME].running
    one = tried.engine.inspect(NAME)
    assert (one.name, one.running, bool(one.image)) == (NAME, True, True)
    assert "yes" in one.labels.values()


def test_one_that_is_not_there_is_an_error_of_one_line(tried: Tried) -> None:
    for ask in (
        tried.engine.inspect,
        tried.engine.start,
        tried.engine.stop,
        tried.engine.restart,
        tried.engine.stats,
        lambda name: tried.engine.logs(name, 5),
        lambda name: tried.engine.execute(name, ["/bin/true"], timeout=WITHIN_S),
    ):
        with pytest.raises(EngineError, match="no-such-instance") as caught:
            ask("no-such-instance")
        assert "\n" not in str(caught.value)


def test_a_command_has_its_exit_code_and_both_outputs(tried: Tried) -> None:
    script = 'echo out; echo err >&2; [ "$(id -u)" = 0 ] && exit 7'
    done = tried.engine.execute(NAME, ["/bin/sh", "-c", script], timeout=WITHIN_S)
    assert done == (7, b"out\n", b"err\n")


def test_words_reach_it_as_they_are(tried: Tried) -> None:
    odd = "a b'c\"d$e%f\n*ü"
    assert tried.run("/bin/sh", "-c", 'printf %s "$1"', "sh", odd) == (0, odd.encode())


def test_input_and_output_are_whole(tried: Tried) -> None:
    code, output = tried.run("/bin/cat", stdin=BIG)
    assert code == 0
    assert hashlib.sha256(output).digest() == hashlib.sha256(BIG).digest()


def test_a_command_need_not_read_its_input(tried: Tried) -> None:
    try:
        ended = tried.run("/bin/echo", "done", stdin=BIG)
    except OutputLost as error:
        # Podman cuts the connection then; its exit code is known all the same.
        ended = (error.returncode, b"done\n" if tried.engine.name == "podman" else b"")
    assert ended == (0, b"done\n")


def test_commands_beside_each_other_lose_nothing(tried: Tried) -> None:
    def one(number: int) -> bool:
        return tried.run("/bin/echo", str(number)) == (0, f"{number}\n".encode())

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(one, range(120)))


def test_a_command_that_takes_too_long_is_an_error(tried: Tried) -> None:
    began = time.monotonic()
    with pytest.raises(EngineError, match="1 s"):
        tried.run("/bin/sleep", "20", timeout=1)
    assert time.monotonic() - began < 5


def test_a_missing_program_is_no_success(tried: Tried) -> None:
    # Docker and Podman reject it; Incus reports the shell's exit code.
    try:
        code, _ = tried.run("/bin/no-such-program")
    except EngineError:
        code = 127
    assert code in (126, 127)


def test_files_come_and_go_with_owner_and_mode(tried: Tried) -> None:
    script = "mkdir -p /opt/a; cd /opt/a; cat > b; chmod 640 b; chown 7:8 b; ln -s b c"
    assert tried.run("/bin/sh", "-c", script, stdin=b"text")[0] == 0
    with tarfile.open(fileobj=io.BytesIO(tried.engine.pull(NAME, "/opt/a"))) as archive:
        found = {entry.name: entry for entry in archive}
        inside = archive.extractfile("a/b")
        assert inside is not None
        assert inside.read() == b"text"
    one = found["a/b"]
    # Podman names and sets the container's own user.
    owner = (0, 0) if tried.engine.name == "podman" else (7, 8)
    assert (one.mode & 0o7777, one.uid, one.gid) == (0o640, *owner)
    assert found["a/c"].linkname.rpartition("/")[2] == "b"
    tried.engine.push(NAME, "/opt", renamed(one, "d", b"other"))
    seen = tried.run("/bin/sh", "-c", "cat /opt/d; stat -c ' %a %u %g' /opt/d")
    assert seen == (0, f"other 640 {owner[0]} {owner[1]}\n".encode())


def renamed(entry: tarfile.TarInfo, name: str, content: bytes) -> bytes:
    """Return a tar file with one file, owned as another one."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry.name, entry.size = name, len(content)
        archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def test_a_missing_path_is_told_apart(tried: Tried) -> None:
    with pytest.raises(PathMissing, match="/opt/none: no such file"):
        tried.engine.pull(NAME, "/opt/none")


def test_its_logs_end_with_the_last_line(tried: Tried) -> None:
    lines = tried.engine.logs(NAME, 50)
    assert [line for line in lines if line in LINES][-2:] == list(LINES)
    assert len(tried.engine.logs(NAME, 1)) == 1


def test_its_stats_are_numbers(tried: Tried) -> None:
    before = tried.engine.stats(NAME)
    tried.run("/bin/sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
    after = tried.engine.stats(NAME)
    # A machine in a container may have no controllers to measure with.
    known = Path("/sys/fs/cgroup/cgroup.controllers").read_text().split()
    assert after.cpu_s > before.cpu_s or "cpu" not in known
    assert after.memory_bytes > 0 or "memory" not in known
    assert after.tasks > 0 or "pids" not in known


def test_it_stops_starts_and_restarts(tried: Tried) -> None:
    tried.engine.stop(NAME)
    tried.until(running=False)
    # Again, as after a run that was killed.
    tried.engine.stop(NAME)
    with pytest.raises(EngineError):
        tried.run("/bin/true")
    tried.engine.start(NAME)
    tried.until(running=True)
    tried.engine.start(NAME)
    tried.engine.restart(NAME)
    tried.until(running=True)
    assert tried.run("/bin/true")[0] == 0


def test_its_system_is_kept_and_forgotten(tried: Tried) -> None:
    tried.engine.snapshot(NAME, "before")
    tried.engine.forget(NAME, "before")
    with pytest.raises(EngineError):
        tried.engine.forget(NAME, "before")


@pytest.mark.parametrize("engine", [Containers("podman", "/run/no.sock"), Incus("/run/no.sock")])
def test_an_engine_that_does_not_answer_is_an_error_of_one_line(engine: Engine) -> None:
    with pytest.raises(EngineError, match="does not answer"):
        engine.inspect("kokoro")
