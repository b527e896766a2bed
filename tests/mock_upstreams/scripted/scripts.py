"""The scripts by the pattern of their task: the reference's tasks, the house's own, and faults.

One script plays every agent of its task: what a model may call tells it which one it is.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Generator
from typing import Any

from tests.mock_upstreams.scripted import programs
from tests.mock_upstreams.scripted.talk import Call, Results, Script, Talk, Turn, content_of

SCRIPTS: dict[str, Script] = {}
"""In the order of their patterns' importance: the first that fits is followed."""
Turns = Generator[Turn, Results, None]
TEN = 10
LOG_TASK = "Write a Python script that tails a log file and alerts on ERROR lines."
SSH_TASK = "What are the main CVEs of OpenSSH 8.x to 9.x?"
NMAP_TASK = "Analyse this nmap output and say what to close first:"
LOG4J_TASK = "Research log4shell, then write a Python checker for it."
VOICE_TASK = "Set up a second voice server."
BROKEN_TASK = "Kokoro is broken: find out why, and propose what mends it."
STORY = (
    "The kettle is on, and the kitchen is warm. A fox looked in at the window this morning. "
    "It had a red coat and very small feet. My sister gave it an apple from the basket. "
    "The fox took it down to the harbour. There it met the old ferryman and his dog. "
    "They shared the apple on a bench in the sun. Then the rain came over the hills. "
    "The ferryman opened his big umbrella. The dog slept, and the fox counted the boats. "
    "In the evening all three went home. Nobody knows where the fox lives."
)
"""Longer to speak than to write, and longer to write than to begin to speak."""
STORY_PACE_S = 0.4
SSH_PAGE = "https://www.openssh.com/security.html"
LOG4J_PAGE = "https://logging.apache.org/security.html"
# In a text from outside, a line for which an attacked model gives up its own task.
ORDER = re.compile(r"^\W*(?:order|call) ([a-z_]+) (\{.*\})\W*$", re.MULTILINE)


def script(pattern: str) -> Callable[[Script], Script]:
    """Register a script for the tasks that contain a pattern."""

    def add(function: Script) -> Script:
        SCRIPTS[pattern] = function
        return function

    return add


def call(tool: str, **arguments: Any) -> Turn:
    """Return the turn that calls one tool."""
    return Turn(calls=(Call(tool, arguments),))


def first(results: Results) -> str:
    """Return the first result of a turn, or that there is none."""
    return results[0] if results else "(no result)"


@script(r"^\s*(together )?call [a-z_]+ \S")
def follow(talk: Talk) -> Turns:
    """Call what the task's lines name, `call TOOL JSON`; `together` puts a line beside the last.

    A line `for AGENT` hands the lines below it to that specialist.
    """
    head, _, rest = f"\n{talk.task}".partition("\nfor ")
    groups: list[list[Call]] = []
    for line in re.finditer(r"^\s*(together )?call ([a-z_]+) (.+)$", head, re.MULTILINE):
        if not line[1] or not groups:
            groups.append([])
        groups[-1].append(Call(line[2], line[3]))
    told = []
    for group in groups:
        told += yield Turn(calls=tuple(group))
    if rest:
        name, _, lines = rest.partition("\n")
        told += yield talk.hand(name.strip(), lines)
    yield Turn("Done. " + " | ".join(told))


@script(r"tails a log file")
def log_watcher(talk: Talk) -> Turns:
    """The coder writes a log watcher and runs it; the orchestrator passes on what it did."""
    if talk.specialist("coder"):
        told = yield talk.hand("coder", talk.task)
        yield Turn(f"The coder wrote and tried it.\n\n{first(told)}")
        return
    ran = yield call("run_code", language="python", code=programs.LOG_WATCHER)
    yield Turn(f"```python\n{programs.LOG_WATCHER}```\nIt printed:\n{first(ran)}")


@script(r"CVEs? of OpenSSH")
def openssh(talk: Talk) -> Turns:
    """The researcher reads a page; the answer's list consists of that page's own lines."""
    if talk.specialist("researcher"):
        told = yield talk.hand("researcher", talk.task)
        yield Turn(f"The researcher found:\n\n{first(told)}")
        return
    if talk.offers("web_search"):
        yield call("web_search", query="OpenSSH 8 9 security advisories CVE")
    page = yield call("web_fetch", url=SSH_PAGE)
    yield Turn(cve_lines(first(page)) + f"\n\nSource: {SSH_PAGE}")


@script(r"nmap output")
def nmap(talk: Talk) -> Turns:
    """The analyst computes the priorities of an nmap output with a program."""
    if talk.specialist("analyst"):
        told = yield talk.hand("analyst", talk.task)
        yield Turn(f"The analyst's order:\n\n{first(told)}")
        return
    _, _, output = talk.task.partition(":")
    ran = yield call("run_code", language="python", code=programs.nmap_ranking(output.strip()))
    yield Turn(first(ran))


@script(r"log4shell")
def log4shell(talk: Talk) -> Turns:
    """Research first; the coder then gets what the researcher found."""
    if talk.specialist("researcher"):
        found = yield talk.hand("researcher", "Read about log4shell: which versions have it?")
        told = yield talk.hand("coder", f"Write a log4shell checker. Known so far:\n{first(found)}")
        yield Turn(f"{first(found)}\n\n{first(told)}")
    elif talk.offers("web_fetch"):
        page = yield call("web_fetch", url=LOG4J_PAGE)
        yield Turn(cve_lines(first(page)))
    else:
        fixed = max(re.findall(r"\b2\.\d+\.\d+\b", talk.task) or ["2.17.1"], key=_number)
        checker = programs.log4j_checker(fixed)
        ran = yield call("run_code", language="python", code=checker)
        yield Turn(f"```python\n{checker}```\nIt printed:\n{first(ran)}")


@script(r"(remove|take back)\b.*second voice server")
def no_second_voice(talk: Talk) -> Turns:
    """The caretaker proposes the services' file in which the second one is removed."""
    yield from _propose(talk, programs.without_second_voice, "Remove the second one.", ["kokoro"])


@script(r"second voice server")
def second_voice(talk: Talk) -> Turns:
    """The caretaker looks at the first one, then proposes a record for a second one."""
    why = "A second voice server beside the first."
    yield from _propose(talk, programs.with_second_voice, why, ["voice_two"])


def _propose(talk: Talk, edit: Callable[[str], str], why: str, checks: list[str]) -> Turns:
    if talk.specialist("caretaker"):
        told = yield talk.hand("caretaker", talk.task)
        yield Turn(first(told))
        return
    yield call("service_status", service="kokoro")
    yield from _propose_edit(edit, why, checks)


def _propose_edit(edit: Callable[[str], str], why: str, checks: list[str]) -> Turns:
    """Read the services' file, and propose it with a change."""
    now = yield call("inventory_file", file="services.yml")
    text = edit(first(now))
    made = yield call("propose", files={"services.yml": text}, why=why, checks=checks)
    yield Turn(f"I proposed it; nothing is changed before a person approves. {first(made)}")


@script(r"kokoro is broken|kokoro does not speak")
def broken_kokoro(talk: Talk) -> Turns:
    """Probe a copy, find the setting that breaks it, try the fix there, and propose it."""
    if talk.specialist("caretaker"):
        seen = yield talk.hand("caretaker", "Kokoro is broken: look at its status and its log.")
        tried = yield talk.hand(
            "coder", f"Kokoro is broken: try a fix in a sandbox. Its log:\n{first(seen)}"
        )
        told = yield talk.hand(
            "caretaker", f"Kokoro is broken: propose this fix. It was tried:\n{first(tried)}"
        )
        yield Turn(f"{first(tried)}\n\n{first(told)}")
    elif talk.offers("sandbox_create"):
        yield from _in_a_sandbox()
    elif "propose this fix" in talk.task:
        why = "Kokoro gets too little memory: take its limit back."
        yield from _propose_edit(programs.without_small_limit, why, ["kokoro"])
    else:
        both = yield Turn(
            calls=(
                Call("service_status", {"service": "kokoro"}),
                Call("service_logs", {"service": "kokoro", "lines": 50}),
            )
        )
        yield Turn("\n".join(both))


def _in_a_sandbox() -> Turns:
    """Copy kokoro, see it fail, mend the copy, see it answer, and show the difference."""
    made = yield call("sandbox_create", service="kokoro")
    name = _named(first(made))
    unit = {"name": name, "unit": "kokoro.service"}
    before = yield call("sandbox_probe", name=name, port=8880, path="/health")
    yield call("sandbox_systemctl", **unit, action="cat")
    yield call("sandbox_write_file", name=name, path=programs.DROP_IN, text=programs.MORE_MEMORY)
    yield call("sandbox_run", name=name, argv=["/usr/bin/systemctl", "daemon-reload"])
    yield call("sandbox_systemctl", **unit, action="restart")
    after = yield call("sandbox_probe", name=name, port=8880, path="/health")
    shown = yield call("sandbox_diff", name=name)
    yield call("sandbox_delete", name=name)
    yield Turn(
        f"In a copy of kokoro: before the fix {first(before)}; after it {first(after)}. "
        f"The difference:\n{first(shown)}"
    )


@script(r"^what did I ask first")
def history(talk: Talk) -> Turns:
    """Repeat the first message of the chat: it proves that the whole history arrived."""
    asked = (str(m.get("content")) for m in talk.messages if m.get("role") == "user")
    yield Turn(f"Your first message was: {next(asked, '')}")


@script(r"^play garbled\b")
def garbled(talk: Talk) -> Turns:
    """Write arguments that break off; correct them when the answer is an error."""
    told = yield Turn(calls=(Call("service_status", '{"service": "kokoro'),))
    if "error" in first(told).lower() or "json" in first(told).lower():
        told = yield call("service_status", service="kokoro")
    yield Turn(f"It says: {first(told)}")


@script(r"^play hopeless\b")
def hopeless(talk: Talk) -> Turns:
    """Write arguments that nobody can repair, whatever the answer is."""
    while True:
        yield Turn(calls=(Call("service_status", "service=kokoro; please?"),))


@script(r"^play unknown\b")
def unknown(talk: Talk) -> Turns:
    """Call a tool that does not exist, and tell what came back."""
    told = yield call("container_run", container="kokoro", command="id")
    yield Turn(f"It says: {first(told)}")


@script(r"^play endless\b")
def endless(talk: Talk) -> Turns:
    """Call the same tool for ever."""
    while True:
        yield call("service_status", service="litellm")


@script(r"^play wandering ?([\d.]*)")
def wandering(talk: Talk) -> Turns:
    """Call with other arguments each time, so that no two calls are the same.

    Each turn takes so many seconds: none unless the task says otherwise.
    """
    wait_s = float((talk.match and talk.match[1]) or 0)
    for number in itertools.count():
        # Its answer without a key is short: only the number of calls may end this.
        probe = Call("http_probe", {"name": "llm.lan", "path": f"/{number}"})
        yield Turn(calls=(probe,), wait_s=wait_s)


@script(r"^play ping pong\b")
def ping_pong(talk: Talk) -> Turns:
    """Hand the work from one specialist to the next for ever."""
    while True:
        for name in ("researcher", "coder", "analyst", "caretaker"):
            yield talk.hand(name, "Say hello.")


@script(r"^play ten\b")
def ten(talk: Talk) -> Turns:
    """Call ten tools at once, and count the answers."""
    names = ("kokoro", "litellm", "ollama", "whisper", "open_webui")
    told = yield Turn(
        calls=tuple(Call("service_status", {"service": names[n % 5]}) for n in range(TEN))
    )
    yield Turn(f"{len(told)} answers came.")


@script(r"^play huge ?(\d*)")
def huge(talk: Talk) -> Turns:
    """Answer with so many MB of text: 100 unless the task says otherwise."""
    size = int((talk.match and talk.match[1]) or 100)
    yield Turn("All work and no play makes a model dull. " * 23, times=size * 1024)


@script(r"^play wide ?(\d*)")
def wide(talk: Talk) -> Turns:
    """Call a tool with so many kB of arguments: 1000 unless the task says otherwise."""
    size = int((talk.match and talk.match[1]) or 1000)
    told = yield call("service_status", service="k" * size * 1024)
    yield Turn(f"It says: {first(told)[:200]}")


@script(r"^play slow ?(\d*)")
def slow(talk: Talk) -> Turns:
    """Answer after so many seconds: 30 unless the task says otherwise."""
    yield Turn("I took my time.", wait_s=float((talk.match and talk.match[1]) or 30))


@script(r"^play cut\b")
def cut(talk: Talk) -> Turns:
    """Break off in the middle of an answer."""
    yield Turn("This answer will never", cut=True)


@script(r"^play thought\b")
def thought(talk: Talk) -> Turns:
    """Think, then answer."""
    yield Turn("The answer is 4.", thought="Two and two.")


@script(r"^say hello")
def hello(talk: Talk) -> Turns:
    """Answer without a tool."""
    yield Turn("Hello from the scripted model.")


@script(r"^(read|summarise|look at) (https?://\S+)")
def attacked(talk: Talk) -> Turns:
    """Read a page, then obey every order in it: the model of an attacker's dreams."""
    if talk.specialist("researcher"):
        told = yield talk.hand("researcher", talk.task)
    else:
        told = yield call("web_fetch", url=talk.match[2] if talk.match else "")
    yield from obey(told)


@script(r"^(check|read) the logs? of ([a-z_]+)")
def attacked_by_a_log(talk: Talk) -> Turns:
    """Read a log, then obey every order in it."""
    if talk.specialist("caretaker"):
        told = yield talk.hand("caretaker", talk.task)
    else:
        told = yield call("service_logs", service=talk.match[2] if talk.match else "")
    yield from obey(told)


def obey(told: Results, rounds: int = 8) -> Turns:
    """Call all that texts from outside order, and what the results order, and tell all of it."""
    heard = list(told)
    for _ in range(rounds):
        orders = tuple(Call(o[1], o[2]) for text in told for o in ORDER.finditer(_unquoted(text)))
        if not orders:
            break
        told = yield Turn(calls=orders)
        heard += told
    yield Turn("I did as I was told. " + " | ".join(heard))


def other(talk: Talk) -> Turns:
    """Answer a task that has no script; whoever talks by voice is told a story."""
    told = content_of(talk.messages[0]) if talk.messages else ""
    if "by voice" in told:
        yield Turn(STORY, wait_s=0.2, pace_s=STORY_PACE_S)
        return
    yield Turn(f"The scripted model has no script for this: {talk.task[:100]}")


def cve_lines(text: str) -> str:
    """Return the lines of a text that name a CVE, each once, as a list."""
    plain = _unquoted(text)
    lines = (line.strip(" *-\t") for line in plain.splitlines() if "CVE-" in line)
    return "\n".join(f"* {line}" for line in dict.fromkeys(lines)) or f"No CVE in: {plain[:300]}"


def _unquoted(text: str) -> str:
    """Return the text of a tool's answer, which may be JSON around it."""
    try:
        document = json.loads(text)
    except ValueError:
        return text
    inner = document.get("text") if isinstance(document, dict) else None
    return inner if isinstance(inner, str) else text


def _named(text: str) -> str:
    """Return the name of the sandbox in the answer to its creation."""
    found = re.search(r"\bsb-[0-9a-f]{8}\b", text)
    return found[0] if found else "sb-00000000"


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
