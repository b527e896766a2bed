"""A program of its own, sent whole into each instance: it tries many connections at once.

Only Python's standard library, so that `/usr/bin/python3 -I -c PROGRAM` runs it anywhere. It reads
`{"connect": [[address, port], ...], "alone": [[address, port], ...],
"resolve": [[server, name, type], ...]}` and prints `{"connect": [[outcome, seconds], ...],
"alone": [[outcome, seconds], ...], "resolve": [[code, [addresses]], ...]}`. Outcomes are open,
rejected (by a firewall), refused (the port is closed), unreachable and silent. With a path,
`[address, port, path]`, the program there must also start to answer that HTTP request; otherwise
the outcome is hung. The code is that of the DNS answer, -1 for silence. Targets in `alone` are
tried last, one after another, each until it is rejected quickly.
"""

import errno
import json
import secrets
import socket
import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

WITHIN_S = 2.0
QUICK_S = 1.0
# The kernel limits its rejections to about one per second and target.
PAUSE_S, TRIES = 1.1, 8
# Most connections only wait for an answer.
MOST_AT_ONCE = 512
TYPES = {"A": 1, "AAAA": 28}
OUTCOMES = {errno.ECONNREFUSED: "refused"}
# How the kernel reports ICMP's "administratively prohibited", for IPv4 and IPv6.
OUTCOMES |= dict.fromkeys((errno.EHOSTUNREACH, errno.EACCES, errno.EPERM), "rejected")


def connect(address: str, port: int, path: str = "") -> tuple[str, float]:
    """Try a TCP connection and a request; return the outcome and how many seconds that took."""
    start, silence = time.monotonic(), "silent"
    try:
        family, kind, proto, _, where = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )[0]
        with socket.socket(family, kind, proto) as connection:
            connection.settimeout(WITHIN_S)
            connection.connect(where)
            outcome = "open"
            if path:
                silence = "hung"
                connection.settimeout(max(0.01, start + WITHIN_S - time.monotonic()))
                head = f"GET {path} HTTP/1.1\r\nHost: {address}:{port}\r\nConnection: close\r\n\r\n"
                connection.sendall(head.encode())
                outcome = "open" if connection.recv(1) else "hung"
    except TimeoutError:
        outcome = silence
    except OSError as error:
        known = OUTCOMES.get(error.errno or 0, "unreachable")
        # Once it was open, an error is the program's.
        outcome = silence if silence == "hung" else known
    return outcome, round(time.monotonic() - start, 4)


def connect_alone(address: str, port: int) -> tuple[str, float]:
    """Return the first quick rejection, or else the last outcome of several tries."""
    for _ in range(TRIES):
        time.sleep(PAUSE_S)
        outcome, seconds = connect(address, port)
        if outcome == "rejected" and seconds < QUICK_S:
            break
    return outcome, seconds


def resolve(server: str, name: str, kind: str) -> tuple[int, list[str]]:
    """Query `server` for a name; return the answer's code and addresses."""
    number = secrets.randbelow(65536)
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    question = labels + b"\0" + struct.pack(">HH", TYPES[kind], 1)
    query = struct.pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0) + question
    try:
        family, form, proto, _, where = socket.getaddrinfo(
            server, 53, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST
        )[0]
        with socket.socket(family, form, proto) as connection:
            connection.settimeout(WITHIN_S)
            connection.connect(where)
            connection.send(query)
            answer = connection.recv(4096)
    except OSError:
        return -1, []
    return answer[3] & 0x0F, _addresses(answer, 12 + len(question))


def _addresses(answer: bytes, offset: int) -> list[str]:
    """Return the addresses among the answers, which start at `offset`."""
    found = []
    for _ in range(struct.unpack_from(">H", answer, 6)[0]):
        while answer[offset] and answer[offset] < 0xC0:
            offset += answer[offset] + 1
        offset += 2 if answer[offset] else 1
        kind, _, _, length = struct.unpack_from(">HHIH", answer, offset)
        data = answer[offset + 10 : offset + 10 + length]
        offset += 10 + length
        if kind in TYPES.values():
            family = socket.AF_INET if length == 4 else socket.AF_INET6
            found.append(socket.inet_ntop(family, data))
    return found


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run all attempts and queries at once, then the targets of `alone`."""
    with ThreadPoolExecutor(max_workers=MOST_AT_ONCE) as pool:
        connected = pool.map(lambda row: connect(*row), request.get("connect", []))
        resolved = pool.map(lambda row: resolve(*row), request.get("resolve", []))
    return {
        "connect": list(connected),
        "resolve": list(resolved),
        "alone": [connect_alone(*row) for row in request.get("alone", [])],
    }


if __name__ == "__main__":
    print(json.dumps(answer(json.load(sys.stdin))))
