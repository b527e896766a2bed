"""`WS /v1/audio/stream` with the real model: text, flush, cancel."""

import asyncio
import json
import time

from websockets.asyncio.client import connect

from .conftest import Server

STORY = "Once upon a time, there was a kettle that could sing. It sang all day long, "


async def test_text_flush_and_cancel(server: Server) -> None:
    address = f"ws://127.0.0.1:{server.port}/v1/audio/stream?voice=af_heart"
    async with connect(address, proxy=None) as socket:

        async def tell(kind: str, **more: str) -> None:
            await socket.send(json.dumps({"type": kind, **more}))

        async def until(kind: str) -> tuple[str, int]:
            text, sound = "", 0
            while True:
                message = await asyncio.wait_for(socket.recv(), 30)
                if isinstance(message, bytes):
                    sound += len(message)
                    continue
                event = json.loads(message)
                text += event.get("text", "")
                if event["type"] == kind:
                    return text, sound

        await until("ready")
        for word in STORY.split(" "):
            await tell("text", text=word + " ")
        first, _ = await until("piece")
        assert STORY.startswith(first.rstrip())
        await tell("flush")
        rest, sound = await until("flushed")
        assert (first + rest).strip() == STORY.strip()
        assert sound > len(STORY) / 16 * 48_000

        # The quickest of three, as where a client leaves.
        took_s = []
        for _ in range(3):
            await tell("text", text=STORY * 5)
            await until("piece")
            await asyncio.sleep(0.2)
            began = time.monotonic()
            await tell("cancel")
            await until("cancelled")
            took_s.append(time.monotonic() - began)
            assert server.status()["active"] == 0
        assert min(took_s) < 0.1, took_s

        await tell("text", text="Well then.")
        await tell("end")
        assert (await until("done"))[0] == "Well then."
