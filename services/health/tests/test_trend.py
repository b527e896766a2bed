"""The page shows each figure beside those of earlier runs, and survives what it cannot read."""

import json
import os
import re
from pathlib import Path

import httpx
import pytest

from hearth_health.config import Config
from hearth_health.trend import HEIGHT, trend_file

from .conftest import Write, put, section
from .sample import trend


async def test_unusual_figures_come_first_with_both_numbers(
    page: httpx.AsyncClient, config: Config, write: Write
) -> None:
    write()
    assert "nothing to compare yet" in await section(page, "trend")
    put(config, "trend", trend())
    text = await section(page, "trend")
    rows = re.findall(
        r'<tr data-state="(\w+)"><th scope="row">([^<]*)<.*?class="state">([^<]*)', text, re.S
    )
    assert rows == [
        ("warning", "first sound of kokoro", "worse than usual"),
        ("up", "memory bandwidth", "better than usual"),
        ("up", "first token", "as usual"),
        ("unknown", "memory of open_webui", "not judged"),
    ]
    assert re.search(r"<strong>811</strong>.*?252 to 378", text, re.DOTALL)
    assert "measured once" not in text


def test_the_line_stays_in_its_picture(config: Config) -> None:
    document = trend()
    document["figures"][0]["points"] = [{"median": 5.0}] * 3
    document["figures"][0]["band"] = None
    put(config, "trend", document)
    rows = trend_file(config.receipt / "trend.json").read().rows
    assert len(rows) == 4
    for row in rows:
        points = [tuple(map(float, point.split(","))) for point in row.line.split()]
        assert len(points) == row.runs
        assert all(0 < x < 120 and 0 < y < HEIGHT for x, y in points)
        if row.band:
            assert 0 < row.band[0] < row.band[0] + row.band[1] < HEIGHT
    slow = next(row for row in rows if row.name == "first sound of kokoro")
    # Up is more: the last run is above what is usual.
    assert slow.band
    assert slow.end[1] < slow.band[0]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"figures": 5}',
        '{"figures": [{"points": [1, 2]}]}',
        json.dumps(trend()).replace("811", "Infinity"),
        json.dumps(trend()).replace("811", '"<b>"'),
        "[" * 100_000,
        json.dumps(trend()) + " " * (5 * 2**20),
    ],
)
async def test_a_broken_file_is_said_and_leaves_the_rest(
    content: str, page: httpx.AsyncClient, config: Config, write: Write
) -> None:
    write()
    put(config, "trend", content)
    assert "figures of earlier runs cannot be read" in await section(page, "trend")
    assert "Everything works" in (await page.get("/")).text
    put(config, "trend", trend())
    assert "first sound of kokoro" in await section(page, "trend")


async def test_a_name_is_never_markup(
    page: httpx.AsyncClient, config: Config, write: Write
) -> None:
    write()
    document = trend()
    document["figures"][0]["name"] = "<script>" * 1000
    put(config, "trend", document)
    text = await section(page, "trend")
    assert "<script>" not in text
    assert len(text) < 10_000


def test_an_unchanged_file_is_read_once(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    put(config, "trend", trend())
    file = trend_file(config.receipt / "trend.json")
    first = file.read()
    monkeypatch.setattr(Path, "open", lambda *_: pytest.fail("read again"))
    assert file.read() is first
    os.unlink(config.receipt / "trend.json")
    assert file.read().rows == ()
