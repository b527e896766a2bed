"""Verbs that act freely, but only inside of sandboxes, which hold no secret and reach nothing.

A consumer sees its own sandboxes only: a person's may hold data. Whatever comes out of one is
labelled as from outside, because anybody's program may have written it.
"""

import asyncio
import contextlib
import functools
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Annotated, Literal, ParamSpec, TypeVar

import pydantic

from hearth.catalogue.house import House, Service
from hearth.sandbox import SandboxError, command, lifecycle
from hearth.sandbox.difference import Change, compare_sandbox

from .config import Config
from .verbs import HOUSE, OUTSIDE, Arguments, Call, RefusedError, Reply, Verb

P = ParamSpec("P")
T = TypeVar("T")

Name = Annotated[str, pydantic.Field(pattern=f"^{lifecycle.SANDBOX_NAME.pattern}$")]
Path = Annotated[str, pydantic.Field(pattern="^/", max_length=1000)]
# The text of a file or of a program that an agent writes.
Text = Annotated[str, pydantic.Field(max_length=256 * 1024)]
Seconds = Annotated[float, pydantic.Field(gt=0, le=command.LONGEST_S, strict=False)]
Word = Annotated[str, pydantic.Field(max_length=20_000)]
# Of their own: a command of two minutes must not keep other verbs from theirs.
_THREADS = ThreadPoolExecutor(2 * lifecycle.MOST, "sandbox")
# Of the eight that there are, so that one consumer leaves some to others.
MOST_OF_ONE = lifecycle.MOST // 2
_CREATE_S, _RUN_S = 200, command.LONGEST_S + 60


class Create(Arguments):
    """Which service to copy."""

    service: Annotated[str, pydantic.Field(max_length=64)]
    with_data: bool = False


class Nothing(Arguments):
    """No arguments."""


class One(Arguments):
    """One sandbox."""

    name: Name


class Run(Arguments):
    """A command as words, or a script for /bin/sh."""

    name: Name
    argv: Annotated[tuple[Word, ...], pydantic.Field(max_length=256)] = ()
    script: Text = ""
    timeout_s: Seconds = 30


class ReadFile(Arguments):
    """A file to read."""

    name: Name
    path: Path


class WriteFile(Arguments):
    """A file to write, whole."""

    name: Name
    path: Path
    text: Text


class Systemctl(Arguments):
    """An action on a unit."""

    name: Name
    action: Literal["status", "start", "stop", "restart", "reload", "enable", "disable", "cat"]
    unit: Annotated[str, pydantic.Field(max_length=200)]


class Probe(Arguments):
    """An HTTP request to a port of the sandbox."""

    name: Name
    port: Annotated[int, pydantic.Field(gt=0, lt=65536)]
    path: Path = "/"


class Code(Arguments):
    """A program."""

    language: Literal["python", "sh"]
    code: Text
    timeout_s: Seconds = 30


def verbs(house: House, config: Config) -> list[Verb]:
    """Return the verbs of sandboxes."""
    del config
    made: Counter[str] = Counter()

    async def create(call: Call, arguments: Create) -> Reply:
        return await _create(house, call, arguments, made)

    async def run_code(call: Call, arguments: Code) -> Reply:
        async with _share(call, made):
            return await _run_code(arguments)

    many = [
        Verb(
            "sandbox_create",
            "Make a disposable copy of a service to try things in: no secrets, no network, no "
            "data, deleted after an hour. Returns its name.",
            *(Create, "sandbox", create, _CREATE_S),
        ),
        Verb("sandbox_list", "List your sandboxes.", Nothing, "sandbox", _list),
        Verb("sandbox_delete", "Delete a sandbox.", One, "sandbox", _delete, 60),
        Verb(
            "sandbox_run",
            "Run a command (argv) or a shell script as root of a sandbox.",
            *(Run, "sandbox", _run, _RUN_S),
        ),
        Verb("sandbox_read_file", "Read a file of a sandbox.", ReadFile, "sandbox", _read, 60),
        Verb(
            "sandbox_write_file",
            "Write a text file in a sandbox, whole.",
            *(WriteFile, "sandbox", _write, 60),
        ),
        Verb(
            "sandbox_systemctl",
            "Look at or control a systemd unit in a sandbox.",
            *(Systemctl, "sandbox", _systemctl, 90),
        ),
        Verb(
            "sandbox_probe",
            "Send an HTTP GET request to a port in a sandbox.",
            *(Probe, "sandbox", _probe, 60),
        ),
        Verb(
            "sandbox_diff",
            "Show what was changed in a sandbox, against the original.",
            *(One, "sandbox", _diff, 60),
        ),
        Verb(
            "run_code",
            "Run a Python or shell program in an empty sandbox of its own, and return its output.",
            *(Code, "sandbox", run_code, _CREATE_S + _RUN_S),
        ),
    ]
    return many


@contextlib.asynccontextmanager
async def _share(call: Call, made: Counter[str]) -> AsyncIterator[None]:
    """Hold one of a consumer's places while something is made; `made` counts those in use."""
    made[call.consumer] += 1
    try:
        own = [one for one in await _owned(call) if one.ready]
        if made[call.consumer] + len(own) > MOST_OF_ONE:
            names = ", ".join(one.name for one in own) or "none that is ready"
            text = f"a key has {MOST_OF_ONE} sandboxes at most: delete one of yours ({names})"
            raise RefusedError(text, HOUSE)
        yield
    finally:
        made[call.consumer] -= 1


async def _owned(call: Call) -> list[lifecycle.Sandbox]:
    return [one for one in await _thread(lifecycle.list_sandboxes) if one.owner == call.consumer]


async def _create(house: House, call: Call, arguments: Create, made: Counter[str]) -> Reply:
    if arguments.with_data:
        raise RefusedError(
            "a copy with data is for a person: they run `hearth sandbox create SERVICE --data`",
            HOUSE,
        )
    service = house.services.get(arguments.service.replace("-", "_"))
    if service is None:
        names = ", ".join(one.name for one in house.services.values() if one.runtime == "incus")
        raise RefusedError(f"no service {arguments.service!r}: name one of {names}", HOUSE)
    async with _share(call, made):
        new = await _thread(_made, service, call.consumer)
    left_s = round(new.ends - time.time())
    text = f"{new.name} is ready: a copy of {new.service}, deleted in {left_s} s"
    return Reply(text, asdict(new))


def _made(service: Service, owner: str) -> lifecycle.Sandbox:
    return lifecycle.create_sandbox(service, owner=owner)


async def _list(call: Call, _: Nothing) -> Reply:
    found = await _owned(call)
    lines = [
        f"{one.name}: a copy of {one.service or 'nothing'}, "
        f"{one.note or ('ready' if one.running and one.ready else 'not ready')}"
        for one in found
    ]
    return Reply("\n".join(lines) or "You have no sandboxes.", [asdict(one) for one in found])


async def _delete(call: Call, arguments: One) -> Reply:
    await _own(call, arguments.name, running=False)
    await _thread(lifecycle.delete_sandbox, arguments.name)
    return Reply(f"{arguments.name} is deleted.")


async def _run(call: Call, arguments: Run) -> Reply:
    if bool(arguments.argv) == bool(arguments.script):
        raise RefusedError("give either argv (the words of a command) or script, not both", HOUSE)
    await _own(call, arguments.name)
    # A script may be longer than an argument.
    argv = arguments.argv or ("/bin/sh", "-s")
    stdin = arguments.script.encode()
    ran = await _thread(
        command.run_command, arguments.name, argv, timeout_s=arguments.timeout_s, stdin=stdin
    )
    return _ran(ran, arguments.name)


async def _read(call: Call, arguments: ReadFile) -> Reply:
    await _own(call, arguments.name)
    data = await _thread(command.read_file, arguments.name, arguments.path)
    return Reply(data.decode(errors="replace"), origin=_origin(arguments.name))


async def _write(call: Call, arguments: WriteFile) -> Reply:
    await _own(call, arguments.name)
    await _thread(command.write_file, arguments.name, arguments.path, arguments.text)
    return Reply(f"{len(arguments.text.encode())} bytes are written.")


async def _systemctl(call: Call, arguments: Systemctl) -> Reply:
    await _own(call, arguments.name)
    ran = await _thread(command.control_unit, arguments.name, arguments.action, arguments.unit)
    return _ran(ran, arguments.name)


async def _probe(call: Call, arguments: Probe) -> Reply:
    await _own(call, arguments.name)
    found = await _thread(command.probe, arguments.name, arguments.port, arguments.path)
    text = f"HTTP {found.status} in {found.seconds:g} s\n{found.body}"
    data = {"status": found.status, "headers": found.headers, "seconds": found.seconds}
    return Reply(text, data, _origin(arguments.name))


async def _diff(call: Call, arguments: One) -> Reply:
    await _own(call, arguments.name, running=False)
    found = await _thread(compare_sandbox, arguments.name)
    lines = [line for change in found.changes for line in _lines(change)]
    lines += [f"not compared: {what}" for what in found.left_out]
    data = {"changes": [{"kind": one.kind, "path": one.path} for one in found.changes]}
    return Reply("\n".join(lines) or "no changes", data, _origin(arguments.name))


async def _run_code(arguments: Code) -> Reply:
    ran = await _thread(
        command.run_code, arguments.language, arguments.code, timeout_s=arguments.timeout_s
    )
    return _ran(ran, "of this program")


def _ran(ran: command.Ran, name: str) -> Reply:
    end = "killed, because its time was over" if ran.timed_out else f"exit code {ran.exit_code}"
    text = f"{end} after {ran.seconds:g} s\n{ran.stdout}"
    text += f"\nerrors:\n{ran.stderr}" if ran.stderr else ""
    data = {"exit_code": ran.exit_code, "timed_out": ran.timed_out, "seconds": ran.seconds}
    return Reply(text, data, _origin(name))


def _lines(change: Change) -> list[str]:
    return [f"{change.kind} {change.path} ({change.detail})", *change.text.splitlines()]


def _origin(name: str) -> str:
    return f"{OUTSIDE}sandbox {name}"


async def _own(call: Call, name: str, running: bool = True) -> None:
    await _thread(lifecycle.find_sandbox, name, running=running, owner=call.consumer)


async def _thread(function: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Run a blocking function beside the server; what it refuses is refused to the caller."""
    try:
        work = functools.partial(function, *args, **more)
        return await asyncio.get_running_loop().run_in_executor(_THREADS, work)
    except SandboxError as error:
        raise RefusedError(str(error)) from None
