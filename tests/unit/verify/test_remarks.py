"""The receipt says which digests nobody shipped: this house recorded what it saw first."""

from dataclasses import replace
from pathlib import Path

from hearth.catalogue import house as catalogue
from hearth.readme import shipped_house
from hearth.sources import Source
from hearth.sources.lock import record_first_sight
from hearth.sources.model import Fetched
from hearth.verify.run import first_sights

URL = "https://example.org/ollama.tar.zst"


def test_a_digest_of_first_sight_is_said_and_a_shipped_one_is_not(tmp_path: Path) -> None:
    shipped = catalogue.Source("ollama", "0.35.0", URL, None, None)
    house = replace(shipped_house(), sources={"ollama": shipped})
    assert first_sights(tmp_path, house) == []
    (tmp_path / "local").mkdir()
    seen = Fetched(tmp_path / "archive", "a" * 64, True, URL)
    record_first_sight(tmp_path, Source("ollama", "0.35.0", URL), seen)
    (line,) = first_sights(tmp_path, house)
    assert line.startswith("ollama 0.35.0: first-sight: ")
    assert line.endswith("a" * 64)
    pinned = replace(house, sources={"ollama": replace(shipped, sha256="b" * 64)})
    assert first_sights(tmp_path, pinned) == []
