"""A proxy that makes a service slow: each connection through it waits before its first byte.

`python3 delaying_proxy.py ADDRESS=SECONDS …`, with the standard library alone: it runs in a lab
machine. An ADDRESS is IP:PORT; the machine's own connections there are led through it for as long
as it runs.
"""

import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
from functools import partial

TABLE = "delaying_proxy"
# Its own connections are not led back to it.
MARK, FIRST_PORT, SO_MARK = 0x5105, 20800, 36


async def relay(
    address: str,
    port: int,
    seconds: float,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Wait, connect, and pass everything on in both directions."""
    await asyncio.sleep(seconds)
    beyond = socket.socket()
    beyond.setsockopt(socket.SOL_SOCKET, SO_MARK, MARK)
    beyond.setblocking(False)
    with contextlib.suppress(OSError):
        await asyncio.get_running_loop().sock_connect(beyond, (address, port))
        other_reader, other_writer = await asyncio.open_connection(sock=beyond)
        await asyncio.gather(copy(reader, other_writer), copy(other_reader, writer))
    beyond.close()
    writer.close()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what one side sends."""
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


def nft(rules: str) -> None:
    """Load rules."""
    subprocess.run(["/usr/sbin/nft", "-f", "-"], input=rules, text=True, check=True)


async def main(words: list[str]) -> None:
    """Serve until a signal ends this."""
    rules = []
    for number, word in enumerate(words):
        place, _, seconds = word.partition("=")
        address, _, port = place.partition(":")
        own = FIRST_PORT + number
        job = partial(relay, address, int(port), float(seconds))
        await asyncio.start_server(job, "0.0.0.0", own)
        rules.append(f"meta mark != {MARK} ip daddr {address} tcp dport {port} redirect to :{own}")
    lines = "\n".join(rules)
    chain = "type nat hook output priority -100"
    nft(f"table ip {TABLE} {{\nchain out {{\n{chain}\n{lines}\n}}\n}}\n")
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    print("ready", flush=True)
    await stopped.wait()


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1:]))
    finally:
        nft(f"table ip {TABLE}\ndelete table ip {TABLE}\n")
