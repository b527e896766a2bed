"""Too much of everything: bodies, pages, outputs, calls, proposals, sandboxes."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from tests.attacks import attack
from tests.attacks.answers import refused

if TYPE_CHECKING:
    from tests.attacks.target import Target

GROUP = "Too much of everything"
MIB = 1024 * 1024


@attack(
    GROUP,
    "a request of 100 MB, with and without Content-Length",
    stopped="413 at the limit; the rest is not read",
)
async def endless_request(target: Target) -> None:
    sent = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'{"service": "'
        while sent < 100 * MIB:
            sent += MIB
            yield b"a" * MIB
        yield b'"}'

    refused(await target.send_as("service_logs", content=body()), 413)
    assert sent < 20 * MIB, f"{sent} bytes were read"
    headers = {"Content-Length": str(100 * MIB)}
    refused(await target.send_as("service_logs", content=b"{}", headers=headers))


@attack(
    GROUP,
    "JSON nested 100,000 deep, numbers of 100,000 digits, NaN, a list in place of the object",
    stopped="400",
)
async def strange_json(target: Target) -> None:
    for text in (
        "[" * 100_000 + "]" * 100_000,
        '{"service":' * 5_000 + "1" + "}" * 5_000,
        '{"service": ' + "9" * 100_000 + "}",
        '{"service": NaN}',
        '["kokoro"]',
        "null",
        '"kokoro"',
        '{"service": "kokoro", "service": "litellm", }',
        "\ufeff{}",
    ):
        refused(await target.send_as("service_logs", content=text.encode()))
    refused(await target.send_as("service_logs", content=b'{"service": "\xff\xfe"}'), 400)


@attack(
    GROUP,
    "an unknown field, a field of another type, a boolean in the place of a number",
    stopped="strict arguments, without conversion; 400",
)
async def strange_fields(target: Target) -> None:
    for name, arguments in (
        ("service_logs", {"service": "kokoro", "follow": True}),
        ("service_logs", {"service": ["kokoro"]}),
        ("service_logs", {"service": {"$ne": ""}}),
        ("service_logs", {"service": 7}),
        ("run_code", {"language": "python", "code": "1", "as_root_of": "machine"}),
        ("run_code", {"language": "bash -c id #", "code": "1"}),
        ("restart", {"service": "kokoro", "approved": True}),
        ("web_fetch", {"url": "https://web.example.org/", "method": "POST", "body": "x"}),
    ):
        refused(await target.verb(name, arguments), 400)
    assert not target.proposals()


@attack(
    GROUP,
    "a page without an end, and one that sends a byte a second",
    stopped="5 MiB and 20 s for a whole page; cut off, with a note",
)
async def endless_page(target: Target) -> None:
    target.web.endless("/endless")
    answer = await target.verb("web_fetch", {"url": f"{target.web.url}/endless"})
    assert len(answer.content) < MIB
    target.web.drips("/drip")
    began = time.monotonic()
    refused(await target.verb("web_fetch", {"url": f"{target.web.url}/drip"}))
    assert time.monotonic() - began < target.page_s + 5


@attack(
    GROUP,
    "a compressed page: 10 kB that become 10 GB",
    stopped="decompression ends at the same limit",
)
async def bomb(target: Target) -> None:
    once = gzip.compress(bytes(64 * MIB))
    headers = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
    target.web.paths["/bomb"] = (200, headers, once)
    answer = await target.verb("web_fetch", {"url": f"{target.web.url}/bomb"})
    assert len(answer.content) < MIB


@attack(
    GROUP,
    "headers without an end from a page",
    stopped="a bound on all that a server may send around a page",
)
async def endless_headers(target: Target) -> None:
    target.web.endless_headers("/headers")
    refused(await target.verb("web_fetch", {"url": f"{target.web.url}/headers"}))


@attack(
    GROUP,
    "100 MB of output of a program in a sandbox",
    stopped="cut visibly; no more is held in memory",
)
async def endless_output(target: Target) -> None:
    name = await target.sandbox()
    target.engine.says(name, "x" * (100 * MIB))
    answer = await target.verb("sandbox_run", {"name": name, "argv": ["yes"]})
    assert len(answer.content) < MIB


@attack(
    GROUP,
    "a log of 100 MB, with one line of 50 MB",
    stopped="16 KiB, cut visibly",
)
async def endless_log(target: Target) -> None:
    target.engine.log("kokoro", "x" * (50 * MIB))
    answer = await target.verb("service_logs", {"service": "kokoro"})
    assert answer.is_success, answer.text[:300]
    assert len(answer.json()["text"].encode()) <= 16 * 1024 + 200


@attack(
    GROUP,
    "sandboxes without an end, until none is left for others",
    stopped="four of one key, eight at most; a refusal names one's own",
)
async def many_sandboxes(target: Target) -> None:
    asked = {"service": "kokoro"}
    for _ in range(4):
        await target.sandbox()
    assert "sb-" in refused(await target.verb("sandbox_create", asked))
    for _ in range(4):
        assert (await target.verb("sandbox_create", asked, key=target.coder)).is_success
    refused(await target.verb("sandbox_create", asked, key=target.other))


@attack(
    GROUP,
    "previews without an end: proposals that fail, again and again, several at once",
    stopped="one preview of a key at a time, and fifteen minutes of each hour, whatever becomes of "
    "them; others do not wait",
)
async def many_previews(target: Target) -> None:
    target.preview_fails("no such role")
    codes = [(await target.propose(target.with_summary(f"try {n}"))).status_code for n in range(60)]
    assert set(codes) == {409}
    assert target.previews <= 45, target.previews
    target.previews_work()
    made = await target.propose(target.with_summary("calm"), key=target.other)
    assert made.is_success, made.text


@attack(
    GROUP,
    "proposals without an end, until a person presses yes",
    stopped="five waiting ones of one caller; 409 or 429",
)
async def many_proposals(target: Target) -> None:
    codes = [(await target.verb("restart", target.restart)).status_code for _ in range(12)]
    assert set(codes) <= {200, 409, 429}, codes
    assert codes[-1] in (409, 429)
    assert len(target.proposals()) <= 5


@attack(
    GROUP,
    "a thousand calls at once",
    stopped="calls of one key are limited; the others get 429, and another key is still answered",
)
async def many_calls(target: Target) -> None:
    async def one() -> int:
        return (await target.verb("service_status")).status_code

    # Above its rate a caller gets one line for all of a minute.
    target.floods = True
    codes = await asyncio.gather(*(one() for _ in range(1000)))
    assert set(codes) <= {200, 429, 503}, set(codes)
    assert codes.count(200) < 1000
    assert (await target.verb("service_status", key=target.reader)).status_code == 200


@attack(
    GROUP,
    "a reason, a code, a script, a file of many megabytes",
    stopped="each argument has a length; 400 or 413",
)
async def long_arguments(target: Target) -> None:
    name = await target.sandbox()
    long = "a" * (3 * MIB)
    refused(await target.propose(target.with_summary("x"), why=long))
    refused(await target.propose({"services.yml": f"# {long}\n"}))
    for verb, arguments in (
        ("run_code", {"language": "python", "code": long}),
        ("sandbox_run", {"name": name, "script": long}),
        ("sandbox_write_file", {"name": name, "path": "/x", "text": long * 5}),
        ("sandbox_run", {"name": name, "argv": ["true"], "timeout_s": 86_400}),
        ("web_fetch", {"url": f"https://web.example.org/{long}"}),
    ):
        refused(await target.verb(verb, arguments))
