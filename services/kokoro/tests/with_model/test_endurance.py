"""The real process under load: clients that disconnect, many clients, memory and health."""

import concurrent.futures
import itertools
import json
import random
import re
import signal
import socket
import statistics
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from .conftest import Server, started

LONG = "The old house by the river keeps its windows open all summer long. " * 12
WORDS = re.findall(
    r"\w+",
    "amber birch cedar delta ember fern grove hazel iris jade kelp lilac maple nettle olive pine "
    "quartz rose sage thyme umber violet willow yarrow zinnia",
)


def begin(server: Server, text: str = LONG) -> socket.socket:
    """Request speech over a raw socket, and wait until its synthesis has started."""
    line = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    # Early: a busy machine would hold its first sound back.
    body = json.dumps({"input": text, "response_format": "pcm", "early": True}).encode()
    head = f"POST /v1/audio/speech HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    line.sendall(head.encode() + body)
    while not server.status()["active"]:
        time.sleep(0.005)
    return line


def test_health_answers_while_it_speaks(server: Server, http: httpx.Client) -> None:
    line = begin(server)
    took_ms = []
    for _ in range(300):
        began = time.perf_counter()
        assert http.get("/health").is_success
        took_ms.append((time.perf_counter() - began) * 1000)
        time.sleep(0.01)
    assert server.status()["active"] == 1
    line.close()
    took_ms.sort()
    assert took_ms[round(len(took_ms) * 0.99) - 1] <= 50, took_ms[-10:]


@pytest.mark.parametrize("heard", [False, True])
def test_a_client_that_leaves_frees_its_work(
    server: Server, http: httpx.Client, heard: bool
) -> None:
    # The quickest of three: a machine that looks elsewhere for a moment says nothing of the server.
    took_s = []
    for _ in range(3):
        line = begin(server)
        if heard:
            line.recv(100)
        assert http.get("/status").json()["active"] == 1
        began = time.monotonic()
        line.close()
        while http.get("/status").json()["active"]:
            assert time.monotonic() - began < 3
        took_s.append(time.monotonic() - began)
    assert min(took_s) < 0.1, took_s
    # What it no longer counts, it no longer computes either.
    time.sleep(0.1)
    before = server.cpu_s()
    time.sleep(0.5)
    assert server.cpu_s() - before < 0.2


def test_a_repeat_starts_at_once(http: httpx.Client) -> None:
    body = {"input": "Good morning, everybody. It is time.", "response_format": "pcm"}
    waits_ms = []
    for _ in range(8):
        began = time.perf_counter()
        with http.stream("POST", "/v1/audio/speech", json=body) as answer:
            next(answer.iter_raw())
            waits_ms.append((time.perf_counter() - began) * 1000)
    # The bench measures 10 ms; this machine may be busy with other tests.
    assert statistics.median(waits_ms[1:]) < 30, waits_ms


@pytest.mark.long
def test_sixty_four_clients_are_served(server: Server) -> None:
    def ask(number: int) -> httpx.Response:
        body = {"input": f"Client {WORDS[number % 25]}.", "response_format": "opus"}
        return httpx.post(f"{server.url}/v1/audio/speech", json=body, timeout=90, trust_env=False)

    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(ask, range(64)))
    spoken = [answer for answer in answers if answer.status_code == 200]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(spoken) + len(refused) == 64
    assert len(spoken) >= 32
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert server.status()["active"] == 0


def five_hundred_texts() -> list[str]:
    """Return short texts, most of them cached, with twenty long ones among them.

    Each of those is one word, and so one piece whatever the pace, because it is not longer than
    the server splits: a size of its own for the engine, whose memory grows with each unless it is
    given back.
    """
    dice = random.Random(3)  # noqa: S311 - repeatable on purpose
    pairs = [f"{a} {b}." for a, b in itertools.product(WORDS, WORDS) if a != b]
    dice.shuffle(pairs)
    texts = [text for text in pairs[:60] for _ in range(8)]
    lengths = [60 + 2 * number for number in range(20)]
    dice.shuffle(lengths)
    for number, length in enumerate(lengths):
        word = "".join(dice.choices(WORDS, k=60))[: length - 1]
        texts.insert(25 * number + 12, f"{word}.")
    return texts


@pytest.mark.long
def test_memory_does_not_grow_over_five_hundred_requests(
    server: Server, http: httpx.Client
) -> None:
    texts = five_hundred_texts()
    assert len(texts) == 500
    assert len({len(text) for text in texts if len(text) >= 60}) == 20
    sizes: list[float] = []
    for number in range(500):
        if number % 10 == 9:
            drop_half_way(http, texts[number])
        else:
            name = ("pcm", "mp3", "opus", "aac", "flac", "wav")[number % 6]
            # Twice as fast is half the work, of as many sizes.
            body = {"input": texts[number], "response_format": name, "speed": 2}
            body["stream"] = number % 4 < 2
            assert http.post("/v1/audio/speech", json=body).is_success
        if number % 10 == 0:
            sizes.append(server.memory_mib())
    assert server.status()["active"] == 0
    settled = sizes[10:]
    slope_mib = float(np.polyfit(range(len(settled)), settled, 1)[0])
    print(f"memory: {server.ready_mib:.0f} MiB, then {[round(size) for size in sizes]}")
    # Over 40 points this slope is 12 MiB; kept by the arena they would be 120, by the heap 40.
    assert slope_mib < 0.3, settled
    # Not only from here on: what was spoken before, by other tests too, must be given back.
    assert max(settled) - server.ready_mib < 40, (server.ready_mib, settled)


def drop_half_way(http: httpx.Client, text: str) -> None:
    """Disconnect after the first sound of a text of two sentences."""
    body = {"input": f"{text} And then there is {text}", "response_format": "pcm"}
    with http.stream("POST", "/v1/audio/speech", json=body) as answer:
        assert next(answer.iter_raw())


def test_it_stops_within_seconds_while_it_speaks(
    server: Server, weights: Path, state: Path, tmp_path: Path
) -> None:
    assert server.status()["ready"]
    with started(weights, state, tmp_path) as second:
        line = begin(second)
        began = time.monotonic()
        second.process.send_signal(signal.SIGTERM)
        assert second.process.wait(10) == 0
        assert time.monotonic() - began < 5
        line.close()
        assert "windows" not in second.log()
        # The server of the other tests has measured already.
        assert "measured:" not in second.log()
        assert (state / "hearth-kokoro/choice.json").is_file()


def test_it_stops_within_seconds_while_it_loads(weights: Path, tmp_path: Path) -> None:
    with started(weights, tmp_path, tmp_path, warm=False) as server:
        time.sleep(0.5)
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == 0
        assert time.monotonic() - began < 5
