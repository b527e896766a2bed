"""The chat keeps to the inventory: after changes by hand, restarts and a rebuild."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator

import pytest

from hearth.clients import ClientError
from hearth.clients.chat import Connection, Person, live_connection, send_message, wait_for_answer
from tests.lab import chat
from tests.lab.house import ANSIBLE_S, CLONE, House
from tests.lab.test_thinking import TOOLS_MODEL
from tests.mock_upstreams.gguf_script import ANSWER

pytestmark = pytest.mark.lab

INSTANCE = "incus exec open-webui --"
ADMINS_PAGE = "/api/v1/auths/admin/config"
AUDIO = "/var/lib/open-webui/cache/audio"
QUESTION = "How does the garden gate open?"
TOKENS, WITHIN_S, READY_S, CUT_S = 16, 60, 20, 5
IDLE_S = 600
# An MCP server by the library that Open WebUI itself uses. Its tool is `get_weather` in the chat.
MCP_UNIT, MCP_PORT, MCP_RESULT = "hearth-test-mcp", 8765, "It rains in Paris."
MCP_SERVER = f"""
from mcp.server.mcpserver import MCPServer
server = MCPServer("weather")
@server.tool(name="weather")
def weather(city: str) -> str:
    return f"It rains in {{city}}."
server.run("streamable-http", port={MCP_PORT})
"""
OPEN = f"""
import socket, time
for _ in range(300):
    try:
        socket.create_connection(("127.0.0.1", {MCP_PORT})).close()
        break
    except OSError:
        time.sleep(0.1)
else:
    raise SystemExit("the MCP server did not start")
"""
MCP = {
    **{"type": "mcp", "url": f"http://127.0.0.1:{MCP_PORT}/mcp", "path": "", "key": ""},
    **{"auth_type": "none", "info": {"id": "get", "name": "Weather"}},
    "config": {
        "enable": True,
        "access_grants": [{"principal_type": "user", "principal_id": "*", "permission": "read"}],
    },
}
# The first two let models do small work, the others give them tools by MCP and no programs.
SETTINGS = {
    **{"ENABLE_TAGS_GENERATION": True, "ENABLE_TITLE_GENERATION": True},
    **{"ENABLE_PLUGINS": True, "ENABLE_FUNCTIONS": False, "ENABLE_TOOLS": False},
    "TOOL_SERVER_CONNECTIONS": [MCP],
}


def features(person: Person) -> dict[str, object]:
    """Return which features are on and off, as the server reports to the page."""
    return dict(person.request("GET", "/api/config")["features"])


def converge(house: House, part: str = "--tags open_webui") -> None:
    """Run a part of site.yml, by default the chat's settings and its start."""
    run = f"cd {CLONE}; ANSIBLE_NOCOLOR=1 .venv/bin/ansible-playbook site.yml {part}"
    house.shell(run, timeout=ANSIBLE_S)


def spoken(house: House) -> list[str]:
    """Return the files with recorded or synthesised speech."""
    return house.shell(f"{INSTANCE} find {AUDIO} -type f </dev/null || true").split()


def until_ready(person: Person) -> float:
    """Return after how many seconds the chat serves its accounts again."""
    began = time.perf_counter()
    while True:
        try:
            if person.send("GET", "/api/config", within_s=2).status_code == 200:
                return time.perf_counter() - began
        except ClientError:
            pass
        assert time.perf_counter() - began < READY_S
        time.sleep(0.1)


def test_a_restart_reverts_changes_by_hand_and_keeps_the_accounts(
    house: House, admin: Person, child: Person
) -> None:
    with live_connection(child) as line:
        turn = send_message(child, line, QUESTION, "fast", max_tokens=TOKENS)
        wait_for_answer(line, turn, WITHIN_S)
        # Speech is kept for no longer than it is needed.
        child.send("POST", "/api/v1/audio/speech", json={"input": QUESTION, "voice": ""})
        assert spoken(house)
        assert features(admin)["enable_signup"] is False
        by_hand = admin.request("GET", ADMINS_PAGE) | {"ENABLE_SIGNUP": True}
        admin.request("POST", ADMINS_PAGE, json=by_hand)
        assert features(admin)["enable_signup"] is True
        house.shell(f"{INSTANCE} systemctl restart open-webui </dev/null")
        house.figures["chat ready after a restart, s"] = until_ready(child)
        # The page notices at once, by the end of its WebSocket.
        assert line.until(lambda: line.closed_s is not None, CUT_S)
    assert features(admin)["enable_signup"] is False
    assert not spoken(house)
    assert turn.answer in chat.messages(child, turn.chat)


def aliases(calls: list[chat.Call]) -> list[str]:
    """Return which aliases answered; the chat also asks for the list of models, now and then."""
    return sorted(call.alias for call in calls if call.alias != "-")


def calls_a_tool(house: House, child: Person) -> None:
    """Check that a model in the chat calls a tool of an MCP server and answers from its result."""
    python = ["python3", "-P", "-c", MCP_SERVER]
    run = ["systemd-run", "--quiet", "--collect", f"--unit={MCP_UNIT}"]
    run += ["--property=RuntimeMaxSec=300", "--setenv=PYTHONPATH=/opt/hearth/open_webui/current"]
    house.shell(f"{INSTANCE} {shlex.join([*run, *python])} </dev/null")
    try:
        house.shell(f"{INSTANCE} {shlex.join(['python3', '-c', OPEN])} </dev/null", timeout=60)
        with live_connection(child) as line:
            turn = send_message(child, line, QUESTION, TOOLS_MODEL, tools=["server:mcp:get"])
            answer = wait_for_answer(line, turn, WITHIN_S)
    finally:
        house.shell(f"{INSTANCE} systemctl stop {MCP_UNIT} </dev/null")
    assert not answer.error
    assert answer.text == "".join(ANSWER)
    # It called once, and the result went back to it.
    kept = chat.messages(child, turn.chat)[turn.answer]
    steps = [step["type"] for step in kept["output"]]
    assert steps == ["reasoning", "function_call", "function_call_output", "reasoning", "message"]
    assert MCP_RESULT in json.dumps(kept["output"][2])


def title(line: Connection) -> str | None:
    """Return the title that a chat was given, once it has one."""
    return next((str(event.data) for event in line.events if event.kind == "chat:title"), None)


@pytest.fixture
def another_setting(house: House, admin: Person) -> Iterator[None]:
    """Change settings in the inventory, and change them back."""
    assert features(admin)["enable_tags_generation"] is False
    before = house.set("open_webui", {"open_webui_settings": SETTINGS})
    yield
    house.overlay(before)
    converge(house)
    assert features(admin)["enable_tags_generation"] is False


@pytest.mark.usefixtures("another_setting")
def test_a_new_instance_follows_the_inventory_and_keeps_every_chat(
    house: House, admin: Person, child: Person
) -> None:
    with live_connection(child) as line:
        turn = send_message(child, line, QUESTION, "fast", max_tokens=TOKENS)
        wait_for_answer(line, turn, WITHIN_S)
    before = chat.messages(child, turn.chat)
    house.shell("incus delete --force open-webui </dev/null")
    converge(house, "--limit localhost,house,open-webui")
    assert features(admin)["enable_tags_generation"] is True
    # The same sessions are valid, and every message is there.
    assert chat.messages(child, turn.chat) == before
    assert chat.first(house).id == admin.id
    # Its own block waits for the gateway's line, which would be counted with the next one's.
    with live_connection(child) as line, chat.calls(house) as calls:
        more = wait_for_answer(
            line, send_message(child, line, "And then?", "fast", after=turn), WITHIN_S
        )
    assert not more.error
    assert aliases(calls) == ["fast"]
    # Of a model that thinks, too, the title is no thought: the small alias writes it.
    with live_connection(child) as line, chat.calls(house) as calls:
        named = send_message(child, line, QUESTION, "local", titled=True)
        wait_for_answer(line, named, WITHIN_S)
        assert line.until(lambda: title(line) is not None, WITHIN_S)
    assert "step 1," not in str(title(line))
    assert aliases(calls) == ["fast", "local"]
    calls_a_tool(house, child)
    script = "'grep VmRSS /proc/$(systemctl show -p MainPID --value open-webui)/status'"
    resident = house.shell(f"{INSTANCE} sh -c {script} </dev/null")
    house.figures["memory of the chat, MiB"] = int(resident.split()[1]) / 1024


@pytest.mark.long
def test_a_websocket_survives_ten_idle_minutes(house: House, child: Person) -> None:
    with live_connection(child) as line:
        assert not line.until(lambda: line.closed_s is not None, IDLE_S), "it was cut"
        assert line.pings >= IDLE_S // 30
        answer = wait_for_answer(
            line, send_message(child, line, QUESTION, "fast", max_tokens=TOKENS), WITHIN_S
        )
        assert not answer.error
        assert answer.text.strip()
