"""What the machine sees of units and instances without running a program in them."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hearth.machine import outside

# Prints a line when it runs, and then waits.
WAITS = "import signal; print('up', flush=True); signal.pause()"
# An "instance": first process of its own namespaces; it listens on its own loopback.
INSIDE = """
import fcntl, signal, socket, struct
s = socket.socket()
fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x49))
server = socket.create_server(("127.0.0.1", 4711))
print("up", flush=True)
signal.pause()
"""


@contextmanager
def running(*argv: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The control groups of a machine, as files of a test."""
    monkeypatch.setattr(outside, "CGROUPS", tmp_path)
    return tmp_path


def put(folder: Path, *pids: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))


def test_a_unit_has_the_memory_of_all_its_processes_and_the_start_of_the_oldest(
    groups: Path,
) -> None:
    with running(sys.executable, "-c", WAITS) as one, running(sys.executable, "-c", WAITS) as two:
        put(groups / "lxc.payload.kokoro/system.slice/kokoro.service", two.pid, one.pid)
        assert outside.processes("kokoro", "kokoro.service").cpu_s == 0
        used = groups / "lxc.payload.kokoro/system.slice/kokoro.service/cpu.stat"
        used.write_text("usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n")
        found = outside.processes("kokoro", "kokoro.service")
        assert found.cpu_s == 2.5
        shown = [Path(f"/proc/{one.pid}/status").read_text() for one in (one, two)]
        resident = sum(int(text.partition("VmRSS:")[2].split()[0]) * 1024 for text in shown)
        assert set(found.pids) == {one.pid, two.pid}
        assert found.pids[0] == one.pid or two.pid < one.pid
        # The kernel counts both a little late.
        assert abs(found.memory_bytes - resident) < 2**20
        assert abs(time.time() - found.since) < 600
        assert not found.halted


def test_a_start_follows_a_clock_that_was_wrong(
    groups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(groups / "system.slice/a.service", os.getpid())
    before, now = outside.processes(None, "a.service").since, time.time()
    monkeypatch.setattr(time, "time", lambda: now + 10**6)
    shift = outside.processes(None, "a.service").since - before
    # A machine that stalls between two readings moves it by that.
    assert abs(shift - 10**6) < 600


def test_a_process_that_a_signal_halts_is_seen_and_seen_to_go_on(groups: Path) -> None:
    with running(sys.executable, "-c", WAITS) as one:
        put(groups / "system.slice/hearth-login.service", one.pid)
        os.kill(one.pid, signal.SIGSTOP)
        os.waitpid(one.pid, os.WUNTRACED)
        assert outside.processes(None, "hearth-login.service").halted
        os.kill(one.pid, signal.SIGCONT)
        os.waitpid(one.pid, os.WCONTINUED)
        assert not outside.processes(None, "hearth-login.service").halted


def test_a_container_is_found_by_its_unit(groups: Path) -> None:
    with running(sys.executable, "-c", WAITS) as first, running(sys.executable, "-c", WAITS) as its:
        unit = groups / "system.slice/hearth-kokoro.service"
        put(unit)
        put(unit / "libpod-payload-abc", first.pid, its.pid)
        # What a killed one left is empty.
        put(unit / "libpod-payload-old")
        # Its first process only waits, and says nothing about the program.
        assert outside.processes(None, "hearth-kokoro.service").pids == (its.pid,)
    text = "0::/system.slice/hearth-kokoro-gpu.service/libpod-payload-abc\n"
    assert outside.instance_of(text) == "kokoro-gpu"


def test_what_has_ended_has_no_processes(groups: Path) -> None:
    assert outside.processes("kokoro", "kokoro.service") == outside.Processes()
    with running(sys.executable, "-c", WAITS) as one:
        put(groups / "system.slice/a.service", one.pid)
        one.kill()
        # It has ended, and nobody has waited for it: a zombie.
        os.waitid(os.P_PID, one.pid, os.WEXITED | os.WNOWAIT)
        assert outside.processes(None, "a.service") == outside.Processes()


def test_a_socket_of_an_instance_reaches_what_only_the_instance_reaches(groups: Path) -> None:
    alone = ["/usr/bin/unshare", "--net", "--pid", "--fork", "--kill-child"]
    if os.geteuid() != 0:
        pytest.skip("only root enters the network of another")
    with running(*alone, sys.executable, "-c", INSIDE) as holder:
        (inner,) = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
        # Its helper is a process of the same group with another number inside.
        put(groups / "lxc.payload.kokoro/init.scope", os.getpid(), int(inner))
        assert outside.first_process("kokoro") == int(inner)
        one, two = outside.sockets("kokoro", 2)
        with one, two:
            one.connect(("127.0.0.1", 4711))
        (here,) = outside.sockets(None, 1)
        with here, pytest.raises(ConnectionRefusedError):
            here.connect(("127.0.0.1", 4711))
        # This thread has stayed where it was.
        with socket.socket() as own, pytest.raises(ConnectionRefusedError):
            own.connect(("127.0.0.1", 4711))


def test_an_instance_that_does_not_run_has_no_sockets(groups: Path) -> None:
    with pytest.raises(OSError, match="the instance kokoro is not running"):
        outside.sockets("kokoro", 1)


def test_a_link_in_an_instance_leads_to_no_file_of_the_machine(
    groups: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root reads files of another's root")
    inside = tmp_path / "inside"
    (inside / "var").mkdir(parents=True)
    (tmp_path / "secret").write_text("of the machine")
    (inside / "var/progress.json").write_text("of the instance")
    (inside / "var/linked.json").symlink_to("/var/progress.json")
    (inside / "var/stolen.json").symlink_to(tmp_path / "secret")
    (inside / "var/up.json").symlink_to("../../../../../.." + str(tmp_path / "secret"))
    os.mkfifo(inside / "var/pipe.json")
    program = (
        f"import os, signal; os.chroot({str(inside)!r}); print('up', flush=True); signal.pause()"
    )
    with running(sys.executable, "-c", program) as holder:
        monkeypatch.setattr(outside, "first_process", lambda _: holder.pid)
        assert outside.read_file("ollama", "/var/progress.json") == b"of the instance"
        # An absolute link starts at the root of the instance.
        assert outside.read_file("ollama", "/var/linked.json") == b"of the instance"
        for name in ("stolen", "up", "none"):
            with pytest.raises(FileNotFoundError):
                outside.read_file("ollama", f"/var/{name}.json")
        with pytest.raises(OSError, match="not a regular file"):
            outside.read_file("ollama", "/var/pipe.json")
    assert outside.read_file(None, str(tmp_path / "secret")) == b"of the machine"


def test_an_instance_whose_old_group_is_still_there_is_found(groups: Path) -> None:
    put(groups / "lxc.payload.chat/init.scope")
    put(groups / "lxc.payload.chat-1/init.scope", 7)
    put(groups / "lxc.payload.chat-room-2/init.scope", 8)
    names = {name: outside.group(name).name for name in ("chat", "chat-room", "other")}
    assert names == {
        "chat": "lxc.payload.chat-1",
        "chat-room": "lxc.payload.chat-room-2",
        "other": "lxc.payload.other",
    }
