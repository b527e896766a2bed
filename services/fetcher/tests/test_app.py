"""The server's own bounds: bodies, places, readers, figures."""

import asyncio
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from hearth_fetcher.app import make_app
from hearth_fetcher.limits import Limits

from .world import SITE, World, answer

URL = f"http://{SITE}/"


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "https://example.org",
        {},
        {"url": None},
        {"url": ["https://example.org"]},
        {"url": "https://example.org", "method": "POST"},
        {"url": "https://example.org", "headers": {"Authorization": "x"}},
    ],
)
async def test_a_request_is_a_url_and_nothing_else(world: World, body: object) -> None:
    response = await world.post(body)
    assert response.status_code == 400
    assert response.json()["error"]["message"] == 'write {"url": "https://…"}'


async def test_a_long_request_is_rejected(world: World) -> None:
    assert (await world.ask("https://example.org/" + "a" * 20_000)).status_code == 413


async def figures(world: World) -> str:
    assert world.state
    transport = httpx.ASGITransport(app=make_app(world.state, lambda error: None))
    async with httpx.AsyncClient(transport=transport, base_url="http://fetcher") as client:
        assert (await client.get("/health")).json() == {"status": "ok"}
        assert (await client.get("/fetch")).status_code == 405
        return (await client.get("/metrics")).text


async def test_pages_are_counted_by_their_outcome(world: World) -> None:
    await world.serve(answer(b"x"))
    await world.ask(URL)
    await world.ask("http://127.0.0.1/")
    world.names[SITE] = [["9.9.9.9"]]
    await world.ask(URL)
    text = await figures(world)
    for outcome in ("done", "refused", "failed"):
        assert f'hearth_fetcher_requests_total{{outcome="{outcome}"}} 1.0' in text
    assert "hearth_fetcher_pages 0.0" in text
    # A figure tells nothing of what was read.
    assert "example" not in text


async def test_a_few_pages_are_fetched_at_once_and_a_few_wait(world: World) -> None:
    world.limits = replace(Limits(), at_once=2, waiting=3)
    now, most = 0, 0

    async def busy(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.05)
        now -= 1
        writer.write(answer(b"x"))

    await world.serve(busy)
    await world.ask(URL)
    found = await asyncio.gather(*(world.ask(URL) for _ in range(9)))
    codes = sorted(response.status_code for response in found)
    assert codes == [200] * 5 + [503] * 4
    assert all(r.headers["retry-after"] == "5" for r in found if r.status_code == 503)
    assert most == 2


@contextmanager
def reader_that(folder: Path, script: str) -> Iterator[Path]:
    """Run a script in place of the reader, which notes its process."""
    note = folder / "pid"
    python = folder / "python"
    python.write_text(f"#!/bin/sh\necho $$ >{note}\n{script}\n")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(python))
        yield note


def ended(note: Path) -> bool:
    """Return whether the process in the note is gone."""
    return not Path(f"/proc/{note.read_text().strip()}").exists()


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("exec sleep 60", 504),
        ("exec <&-; exec sleep 60", 504),
        ("exec >&-; exec sleep 60", 504),
        ("exec yes", 502),
        ("kill -9 $$", 502),
        ("echo '{}'", 502),
        ("echo '[1]'", 502),
        ("head -c 5000000 /dev/zero", 502),
    ],
)
async def test_a_reader_that_was_taken_over_is_ended(
    world: World, tmp_path: Path, script: str, status: int
) -> None:
    world.limits = replace(Limits(), page_s=0.8)
    await world.serve(answer(b"x" * 2_000_000))
    with reader_that(tmp_path, script) as note:
        await world.refusal(URL, status)
        assert ended(note)
    assert world.state
    assert world.state.inside == 0


async def test_a_reader_gets_nothing_of_the_servers_environment(
    world: World, tmp_path: Path
) -> None:
    await world.serve(answer(b"x"))
    with pytest.MonkeyPatch.context() as patch, reader_that(tmp_path, f"env >{tmp_path}/env"):
        patch.setenv("CREDENTIALS_DIRECTORY", "/run/credentials/fetcher")
        await world.ask(URL)
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "PYTHONPATH"} & set(os.environ)
