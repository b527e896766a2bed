"""Pipelines in the house: who reaches them, how one is added and removed, and a broken one.

services/pipelines/tests proves that the server itself fetches, moves and changes nothing.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from hearth.clients.chat import ChatAnswer, Person, live_connection, send_message, wait_for_answer
from tests import lab_machine as lab
from tests.lab import chat
from tests.lab.house import ANSIBLE_S, CLONE, NAME, House

pytestmark = pytest.mark.lab

ADDRESS, PORT = "10.140.30.38", 9099
OURS = "second_opinion"
LOCAL = f"{CLONE}/inventory/local/pipelines"
INSTANCE = "incus exec pipelines --"
JOURNAL = f"{INSTANCE} journalctl --unit pipelines --boot --no-pager --output cat </dev/null"
# Enough for a thought and an answer after it.
TOKENS, WITHIN_S = 128, 120
# Sent to a pipeline, and found in no log afterwards.
WORD = "zanzibar-blue-4712"
LIGHTS = f'''"""
description: Says which light is on.
requirements: requests
"""
class Pipeline:
    name = "The lights"
    def pipe(self, user_message, **fields):
        if user_message == "fail":
            raise ValueError("{WORD}")
        yield "It is on: "
        yield user_message
'''
VALVES = {"pipelines_valves": {OURS: {"second": "coder"}}}
BROKEN = "import nowhere_to_be_found\nclass Pipeline:\n    def pipe(self, **fields): ...\n"
GREEDY = '"""\nrequirements: six\n"""\nclass Pipeline:\n    def pipe(self, **fields): ...\n'
# The firewall rejects it, or, after many rejections a moment ago, drops it silently.
CLOSED = {"No route to host", "timed out"}
TRY = """
import socket, sys
plug = socket.socket()
plug.settimeout(3)
try:
    plug.connect((sys.argv[1], int(sys.argv[2])))
    print("open")
except OSError as error:
    print(error.strerror or type(error).__name__)
"""


def write(path: str, text: str) -> None:
    """Write a file where a person would."""
    put = ["/usr/bin/install", "-D", "-m", "644", "/dev/stdin", path]
    lab.run(NAME, put, stdin=text, check=True)


def valves(admin: Person, index: int) -> dict[str, object]:
    """Return the settings of our pipeline, as the administrators' page shows them."""
    return dict(admin.request("GET", f"/api/v1/pipelines/{OURS}/valves?urlIdx={index}"))


@pytest.fixture(scope="module")
def index(admin: Person) -> int:
    """The number of the chat's connection to the pipelines."""
    listed = admin.request("GET", "/api/v1/pipelines/list")["data"]
    (found,) = [one["idx"] for one in listed if str(PORT) in one["url"]]
    return int(found)


def converge(house: House) -> None:
    """Run the pipelines' part of site.yml."""
    run = f"cd {CLONE}; ANSIBLE_NOCOLOR=1 .venv/bin/ansible-playbook site.yml --tags pipelines"
    house.shell(run, timeout=ANSIBLE_S)


@contextmanager
def added(house: House, files: Mapping[str, str], settings: Mapping[str, Any]) -> Iterator[None]:
    """Converge with these files and settings, and without them at the end."""
    before = house.set("pipelines", settings)
    try:
        for path, text in files.items():
            write(path, text)
        converge(house)
        yield
    finally:
        house.overlay(before)
        house.inside("/bin/rm", "-f", *files, check=True)
        converge(house)


def ask(person: Person, text: str, model: str) -> ChatAnswer:
    """Send a message to a model, as the page does, and wait for the end of the answer."""
    with live_connection(person) as line:
        return wait_for_answer(
            line, send_message(person, line, text, model, max_tokens=TOKENS), WITHIN_S
        )


def test_ours_is_offered_and_calls_the_houses_models_with_its_own_key(
    house: House, child: Person
) -> None:
    offered = chat.models(child)[OURS]
    assert offered["name"] == "Second opinion"
    assert chat.description(offered).startswith("Two models")
    with chat.calls(house, "pipelines") as calls:
        answer = ask(child, f"Is the lamp on, {WORD}?", OURS)
    assert not answer.error
    parts = ["### 1. fast", "### 2. local", "### Where they differ"]
    assert [part for part in parts if part in answer.text] == parts
    assert "step 1," not in answer.text, "a thought is in the answer"
    # It arrived in the pieces in which it was generated: more than there are headings.
    assert len(answer.pieces) > len(parts)
    found = [(call.alias, call.status, call.end) for call in calls]
    assert found == [(name, 200, "done") for name in ("fast", "local", "local")]
    written = chat.messages(child, answer.turn.chat)
    assert parts[2] in written[answer.turn.answer]["content"]


def test_an_added_one_appears_and_a_broken_one_breaks_no_other(
    house: House, admin: Person, child: Person, index: int
) -> None:
    files = {f"{LOCAL}/lights.py": LIGHTS, f"{LOCAL}/broken.py": BROKEN}
    assert OURS in chat.models(child)
    assert "lights" not in chat.models(child)
    with added(house, files, VALVES):
        assert valves(admin, index) == {"first": "fast", "second": "coder", "compare": True}
        offered = chat.models(child)
        assert {OURS, "lights"} <= offered.keys()
        assert "broken" not in offered
        assert chat.description(offered["lights"]) == "Says which light is on."
        assert ask(child, WORD, "lights").text == f"It is on: {WORD}"
        failed = ask(child, "fail", "lights")
        assert failed.error == "The pipeline lights failed; the house's log shows where."
        log = house.shell(JOURNAL)
        assert "broken.py is left out: ModuleNotFoundError in line 1" in log
        assert "lights.py failed: ValueError in line 9" in log
        assert WORD not in log
    assert "lights" not in chat.models(child)
    assert OURS in chat.models(child)
    assert valves(admin, index)["second"] == "local"


def test_what_is_not_in_the_lock_is_refused_before_anything_happens(house: House) -> None:
    started = house.shell(f"{INSTANCE} systemctl show -p MainPID pipelines </dev/null")
    write(f"{LOCAL}/greedy.py", GREEDY)
    try:
        done = house.hearth("check")
        assert done.returncode == 1
        place = "inventory/local/pipelines/greedy.py:2: requirements six is not in "
        assert f"{place}requirements/pipelines.txt" in " ".join(done.stderr.split())
    finally:
        house.inside("/bin/rm", "-f", f"{LOCAL}/greedy.py", check=True)
    assert house.hearth("check").returncode == 0
    assert house.shell(f"{INSTANCE} systemctl show -p MainPID pipelines </dev/null") == started


def test_only_the_chat_reaches_it(house: House, guest: str) -> None:
    listed = json.loads(house.shell("incus list --format json </dev/null"))
    instances = sorted(one["name"] for one in listed if one["name"] != "pipelines")
    assert {"open-webui", "kokoro", "litellm"} <= set(instances)
    words = shlex.join(["-c", TRY, ADDRESS, str(PORT)])
    seen = {
        name: house.shell(f"incus exec {name} -- python3 {words} </dev/null").strip()
        for name in instances
    }
    assert seen.pop("open-webui") == "open"
    assert set(seen.values()) <= CLOSED, seen
    # On the machine itself, root alone.
    user = house.shell(f"setpriv --reuid=65534 --clear-groups python3 {words}").strip()
    assert user in CLOSED
    # A device on the LAN with a route to the instances.
    route = [f"{ADDRESS}/32", "via", lab.address(NAME)]
    lab.run(guest, ["ip", "route", "replace", *route], check=True)
    try:
        assert knocked(guest, ADDRESS, PORT) != "open"
        # By the same route to the machine's own address; a port published there opens.
        assert knocked(guest, lab.address(NAME), PORT) != "open"
        assert knocked(guest, lab.address(NAME), 443) == "open"
    finally:
        lab.run(guest, ["ip", "route", "del", *route], check=True)


def knocked(guest: str, address: str, port: int) -> str:
    """Try a port from a device on the LAN; return "open", or the error."""
    argv = ["python3", "-c", TRY, address, str(port)]
    return lab.run(guest, argv, timeout=30, check=True).stdout.strip()


def test_the_reverse_proxy_does_not_serve_it(house: House, guest: str) -> None:
    seen = {name: status(guest, name) for name in (chat.SITE, "pipelines.lan", "pipelines")}
    # The same request for a name that it serves gets an answer.
    assert seen.pop(chat.SITE) == "200"
    assert set(seen.values()) == {"000"}, seen
    assert "pipelines" not in house.shell("cat /etc/hearth/Caddyfile")


def status(guest: str, name: str) -> str:
    """Request a name from the reverse proxy on a device of the LAN; 000 where it is unknown."""
    argv = ["curl", "--silent", "--insecure", "--max-time", "10", "--output", "/dev/null"]
    argv += ["--write-out", "%{http_code}", "--connect-to", f"{name}:443:{lab.address(NAME)}:443"]
    return lab.run(guest, [*argv, f"https://{name}/"], timeout=30).stdout.strip()


def test_the_page_for_admins_changes_nothing(admin: Person, child: Person, index: int) -> None:
    before = valves(admin, index)
    place = f"/api/v1/pipelines/{OURS}/valves/update?urlIdx={index}"
    assert admin.send("POST", place, json={"first": "coder"}).status_code == 403
    assert valves(admin, index) == before
    gone = {"id": OURS, "urlIdx": index}
    assert admin.send("DELETE", "/api/v1/pipelines/delete", json=gone).status_code == 403
    assert child.send("GET", "/api/v1/pipelines/list").status_code in (401, 403)
    assert OURS in chat.models(child)
