"""The example pipeline in docs/pipelines.md works as the page says."""

from __future__ import annotations

import re

from tests.environments import PROJECT

from .conftest import Start, streamed_text
from .mock_models import MockModels

PAGE = (PROJECT / "docs/pipelines.md").read_text()


def test_the_example_works(start: Start, models: MockModels) -> None:
    (text,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    server = start({"family_rules": text})
    assert streamed_text(server.chat("family_rules", "Why is it dark?")) == "fast starts and ends."
    (call,) = models.calls
    assert [message["role"] for message in call["messages"]] == ["system", "user"]
    (listed,) = server.request("GET", "/v1/models").json()["data"]
    assert listed["name"] == "For children"
    assert listed["info"]["meta"]["description"] in PAGE
