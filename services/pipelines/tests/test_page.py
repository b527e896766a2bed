"""The pipeline that docs/pipelines.md shows to people does what the page says."""

from __future__ import annotations

import re

from tests.environments import PROJECT

from .conftest import Start, words
from .models import Models

PAGE = (PROJECT / "docs/pipelines.md").read_text()


def test_what_the_page_shows_can_be_used(start: Start, models: Models) -> None:
    (text,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    server = start({"family_rules": text})
    assert words(server.chat("family_rules", "Why is it dark?")) == "fast begins and ends."
    (call,) = models.calls
    assert [message["role"] for message in call["messages"]] == ["system", "user"]
    (listed,) = server.ask("GET", "/v1/models").json()["data"]
    assert listed["name"] == "For children"
    assert listed["info"]["meta"]["description"] in PAGE
