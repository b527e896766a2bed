"""The engine returns all output, keeps its deadline, and explains in one line."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pylxd.exceptions
import pytest

from hearth import engine, instance_exec


class Instance:
    """An instance as pylxd hands it over, with the calls it got."""

    def __init__(self, code: int = 0, stdout: bytes = b"", sleep: float = 0) -> None:
        self.code, self.stdout, self.sleep = code, stdout, sleep
        self.calls: list[tuple[list[str], Any]] = []

    def execute(self, argv: list[str], stdin: bytes) -> instance_exec.Output:
        self.calls.append((argv, stdin))
        time.sleep(self.sleep)
        return instance_exec.Output(self.code, self.stdout, b"why\n")

    def state(self) -> Any:
        return SimpleNamespace(status="Running", memory={"usage": 42})


@pytest.fixture
def incus(monkeypatch: pytest.MonkeyPatch) -> Any:
    def put(instance: Instance | Exception) -> None:
        def get(name: str) -> Instance:
            if isinstance(instance, Exception):
                raise instance
            return instance

        client = SimpleNamespace(instances=SimpleNamespace(get=get))

        def execute(given: Any, name: str, argv: list[str], **more: Any) -> instance_exec.Output:
            found: Instance = given.instances.get(name)
            return found.execute(argv, more["stdin"])

        monkeypatch.setattr(engine, "_client", lambda: client)
        monkeypatch.setattr(instance_exec, "execute", execute)

    return put


def test_execute_hands_on_input_output_and_exit_code(incus: Any) -> None:
    instance = Instance(code=3, stdout="ä\n".encode())
    incus(instance)
    done = engine.execute("ollama", ["/bin/x", "a b"], timeout=4, stdin="in")
    assert done == engine.Completed(3, "ä\n", "why\n")
    assert instance.calls == [
        (["/usr/bin/timeout", "--kill-after=2", "4", "/bin/x", "a b"], b"in"),
    ]


def test_a_command_that_ran_out_of_time_is_an_error(incus: Any) -> None:
    incus(Instance(code=124))
    with pytest.raises(engine.EngineError, match=r"^ollama: `/bin/x` took longer than 4 s$"):
        engine.execute("ollama", ["/bin/x"], timeout=4)


def test_an_engine_that_hangs_is_an_error(incus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_GRACE_S", 0.05)
    incus(Instance(sleep=1))
    with pytest.raises(engine.EngineError, match=r"^ollama: no answer from the engine in 0.1 s$"):
        engine.execute("ollama", ["/bin/x"], timeout=0.05)


def test_a_missing_instance_says_what_to_do(incus: Any) -> None:
    incus(pylxd.exceptions.NotFound(None))
    with pytest.raises(engine.EngineError, match="ollama: no such instance: run `hearth up`"):
        engine.state("ollama")


def test_without_incus_the_error_names_the_socket(incus: Any) -> None:
    incus(pylxd.exceptions.ClientConnectionFailed("refused"))
    with pytest.raises(engine.EngineError, match="Incus does not answer on /var/lib/incus"):
        engine.execute("ollama", ["/bin/x"], timeout=1)


def test_a_machine_without_incus_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine, "SOCKET", str(tmp_path / "unix.socket"))
    engine._client.cache_clear()
    with pytest.raises(engine.EngineError, match=r"Incus does not answer on .*unix\.socket"):
        engine.state("ollama")


def test_a_file_that_is_not_there_names_the_path(incus: Any) -> None:
    incus(Instance(code=1))
    with pytest.raises(engine.EngineError, match="ollama: cannot read /etc/x: why"):
        engine.read_file("ollama", "/etc/x")


def test_state_and_units(incus: Any) -> None:
    said = b"ActiveState=active\nSubState=running\nResult=success\nStateChangeTimestamp=@17\n"
    incus(Instance(stdout=said))
    assert engine.state("ollama") == engine.State("Running", 42)
    unit = engine.unit_state("ollama", "ollama.service")
    assert unit == engine.UnitState("active", "running", "success", 17)
    assert unit.up


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [(0, 0, ""), (1, 203, "exit code 203"), (2, 9, "signal 9"), (3, 11, "signal 11")],
)
def test_a_unit_says_how_often_and_how_it_ended(
    incus: Any, code: int, status: int, said: str
) -> None:
    numbers = f"NRestarts=4\nExecMainCode={code}\nExecMainStatus={status}\n"
    incus(Instance(stdout=f"ActiveState=activating\n{numbers}".encode()))
    unit = engine.unit_state("ollama", "ollama.service")
    assert (unit.restarts, unit.exit) == (4, said)


def test_the_last_words_are_the_last_lines_that_say_something(incus: Any) -> None:
    incus(Instance(stdout=b"first\n\nno such file\n \ngiving up\n"))
    assert engine.last_words("ollama", "ollama.service") == "no such file; giving up"
    incus(Instance(stdout=b""))
    assert engine.last_words("ollama", "ollama.service") == ""


def test_who_only_looks_looks_again_where_the_output_was_lost(incus: Any) -> None:
    class Careless(Instance):
        def execute(self, argv: list[str], stdin: bytes) -> instance_exec.Output:
            done = super().execute(argv, stdin)
            if len(self.calls) == 1:
                raise instance_exec.OutputLost("ollama: stream 2 of a command broke off")
            return done

    incus(Careless(stdout=b"ActiveState=active\n"))
    assert engine.unit_state("ollama", "ollama.service").up
    # What may change something is not done twice.
    incus(Careless())
    with pytest.raises(engine.OutputLost, match="stream 2 of a command broke off"):
        engine.execute("ollama", ["/bin/x"], timeout=4)


def test_a_unit_that_never_ran_is_down_since_ever(incus: Any) -> None:
    incus(Instance(stdout=b"ActiveState=inactive\nSubState=dead\nStateChangeTimestamp=\n"))
    unit = engine.unit_state("ollama", "ollama.service")
    assert (unit.up, unit.since) == (False, 0)


def test_the_machine_itself_is_the_nameless_instance() -> None:
    done = engine.execute(None, ["/bin/cat"], timeout=5, stdin="x")
    assert done == engine.Completed(0, "x", "")
    with pytest.raises(engine.EngineError, match="this machine: `/bin/sleep` took longer"):
        engine.execute(None, ["/bin/sleep", "5"], timeout=0.1)
    assert engine.execute(None, ["/bin/nonesuch"], timeout=5).returncode == 127


def test_the_journal_brings_the_helpers_of_a_service() -> None:
    argv = engine.journal_argv("ollama.service")
    assert argv[-4:] == ["-u", "ollama.service", "-u", "ollama-*.service"]
