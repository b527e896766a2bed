"""The page shows what `hearth plan` proposed, and survives what it cannot read."""

import re

import httpx
import pytest

from hearth_health.config import Config
from hearth_health.plan import WIDTH, plan_file

from .conftest import Write, put, section
from .sample import plan


async def test_proposed_models_come_first_with_their_bars(
    page: httpx.AsyncClient, config: Config, write: Write
) -> None:
    write()
    assert "There is no plan yet" in await section(page, "plan")
    put(config, "plan", plan())
    text = await section(page, "plan")
    names = re.findall(r'<th scope="row">([^<]*)</th>\s*<td[^>]*>([^<]*)</td>', text)
    assert names[:3] == [("quick", "fast, local"), ("careful", "coder"), ("other", "")]
    assert "too large" not in text
    assert re.search(r"<strong>42</strong>.*?33.6 to 52.5", text, re.DOTALL)
    assert "Memory of a card" in text
    put(config, "plan", plan() | {"models": [], "choices": []})
    text = await section(page, "plan")
    assert "No model of the list fits the memory of a card" in text


def test_bars_stay_in_their_picture(config: Config) -> None:
    put(config, "plan", plan())
    rows = plan_file(config.receipt / "plan.json").read().rows
    assert max(row.to_x for row in rows) == WIDTH
    for row in rows:
        assert 0 < row.from_x < row.width < row.to_x <= WIDTH


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"choices": 5}', "x" * 3_000_000, "[" * 9000])
async def test_a_plan_that_cannot_be_read_is_one_line(
    page: httpx.AsyncClient, config: Config, write: Write, text: str
) -> None:
    write()
    put(config, "plan", text)
    assert "The plan cannot be read" in await section(page, "plan")


async def test_text_of_a_plan_is_never_markup(
    page: httpx.AsyncClient, config: Config, write: Write
) -> None:
    write()
    document = plan()
    document["models"][0]["name"] = "<b>x</b>"
    document["machine"]["name"] = "<script>"
    put(config, "plan", document)
    text = await section(page, "plan")
    assert "<b>x" not in text
    assert "<script>" not in text
