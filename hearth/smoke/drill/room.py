"""The drill's own room in the gateway's instance: broken members, and one who asks.

Runs with nothing but Python's own library. It is told what to do over a socket that only root
opens, and leaves by itself when nobody has told it anything for a while.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from pathlib import Path
from typing import Any

from hearth.smoke.drill.faults import Member

CONTROL = "control"
_MOST_BYTES = 256 * 1024


class Room:
    """The members that can be broken, and the gateway that is asked."""

    def __init__(self, members: list[Member], gateway: tuple[str, int]) -> None:
        """Break nothing yet."""
        self._members = {member.name: member for member in members}
        self._gateway = gateway
        self._told = asyncio.Event()
        self._busy = 0

    async def open(self) -> None:
        """Stand before every member."""
        await self._become({})

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Do what one line of JSON says, and answer with another one."""
        self._busy += 1
        try:
            told = json.loads(await reader.readline())
            steps = [await self._step(step, told["key"]) for step in told["steps"]]
            writer.write(json.dumps({"steps": steps}).encode() + b"\n")
            await writer.drain()
        finally:
            self._busy -= 1
            self._told.set()
            writer.close()

    async def until_left(self, idle_s: float) -> None:
        """Return when nobody has told anything for `idle_s` seconds."""
        while True:
            self._told.clear()
            try:
                async with asyncio.timeout(idle_s):
                    await self._told.wait()
            except TimeoutError:
                if not self._busy:
                    return

    async def _step(self, step: dict[str, Any], key: str) -> dict[str, Any]:
        """Break members as told, ask all at once; return what came and who was asked how often."""
        await self._become(step["faults"])
        for member in self._members.values():
            member.forget()
        asks = (asyncio.to_thread(_ask, self._gateway, ask, key) for ask in step["asks"])
        answers = await asyncio.gather(*asks)
        calls = {name: member.calls for name, member in self._members.items()}
        took = {name: [one.first_s, one.whole_s] for name, one in self._members.items()}
        return {"answers": answers, "calls": calls, "took_s": took}

    async def _become(self, faults: dict[str, str]) -> None:
        for name, member in self._members.items():
            await member.become(faults.get(name, ""))


def _ask(gateway: tuple[str, int], ask: dict[str, Any], key: str) -> dict[str, Any]:
    """Ask the gateway; return the status, the headers, the body, and when they came."""
    began = time.monotonic()
    connection = http.client.HTTPConnection(*gateway, timeout=ask["within_s"])
    headers = {"Authorization": f"Bearer {key}", "Content-Type": ask["type"]}
    answer: dict[str, Any] = {"status": 0, "headers": {}, "body": "", "first_s": 0.0}
    try:
        body = ask["body"].encode() if ask["body"] else None
        connection.request(ask["method"], ask["path"], body, headers)
        response = connection.getresponse()
        answer["status"], answer["first_s"] = response.status, time.monotonic() - began
        answer["headers"] = {name.lower(): value for name, value in response.getheaders()}
        answer["body"] = response.read(_MOST_BYTES).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        answer["trouble"] = type(error).__name__
    finally:
        connection.close()
    return answer | {"total_s": time.monotonic() - began}


def main(plan: dict[str, Any], folder: Path) -> None:
    """Write the gateway's files for the drill, and serve until nobody tells anything any more."""
    for name, text in plan["files"].items():
        path = folder / "etc" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        # The gateway is somebody else here; no secret is in these files.
        path.chmod(0o644)
        path.parent.chmod(0o755)
    members = [Member(**member) for member in plan["members"]]
    room = Room(members, (plan["gateway"][0], plan["gateway"][1]))
    asyncio.run(_run(room, folder / CONTROL, plan["idle_s"]))


async def _run(room: Room, control: Path, idle_s: float) -> None:
    await room.open()
    # The socket comes last: it is there when all of the room is.
    async with await asyncio.start_unix_server(room.serve, control, limit=4 * 1024 * 1024):
        await room.until_left(idle_s)
