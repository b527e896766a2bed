"""The receipt says which digests nobody shipped: this house recorded what it saw first."""

from dataclasses import replace
from pathlib import Path

from hearth.catalogue import house as catalogue
from hearth.smoke.run import unverified
from hearth.sources import Source
from hearth.sources.lock import record_unverified
from hearth.sources.source import Fetched
from tests.documents import shipped_house

URL = "https://example.org/ollama.tar.zst"


def test_a_digest_of_unverified_is_said_and_a_shipped_one_is_not(tmp_path: Path) -> None:
    shipped = catalogue.Source("ollama", "0.35.0", URL, None, None)
    house = replace(shipped_house(), sources={"ollama": shipped})
    assert unverified(tmp_path, house) == []
    (tmp_path / "local").mkdir()
    seen = Fetched(tmp_path / "archive", "a" * 64, True, URL)
    record_unverified(tmp_path, Source("ollama", "0.35.0", URL), seen)
    (line,) = unverified(tmp_path, house)
    assert line.startswith("ollama 0.35.0: unverified: ")
    assert line.endswith("a" * 64)
    pinned = replace(house, sources={"ollama": replace(shipped, sha256="b" * 64)})
    assert unverified(tmp_path, pinned) == []
