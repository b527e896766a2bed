"""The smoke tests of pipelines pass for a house that does without any, too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from hearth.smoke import test_pipelines as smoke

PIPES: Any = SimpleNamespace(name="pipelines")


@pytest.mark.parametrize("names", [[], ["second_opinion"]])
def test_pipelines_require_the_key(monkeypatch: pytest.MonkeyPatch, names: list[str]) -> None:
    tried: list[str] = []

    def respond(_pipes: Any, _method: str, path: str, _key: str | None) -> httpx.Response:
        tried.append(path)
        return httpx.Response(401)

    monkeypatch.setattr(smoke, "installed", lambda _pipes: names)
    monkeypatch.setattr(smoke, "request", respond)
    smoke.test_pipelines_require_the_key(PIPES)
    assert f"/{(names or ['nobody'])[0]}/valves" in tried
    monkeypatch.setattr(smoke, "request", lambda *_: httpx.Response(200))
    with pytest.raises(AssertionError, match="HTTP 200"):
        smoke.test_pipelines_require_the_key(PIPES)
