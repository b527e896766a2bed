"""A passage is found whatever the index says about it, with a stand-in for Chroma's collection."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hearth_open_webui import passages

SIZE, LIMIT = 8, 5
QUESTION = [1.0] + [0.0] * (SIZE - 1)


@dataclass
class Collection:
    """What `get` and `count` of Chroma's collection return, a part at a time."""

    rows: list[tuple[str, list[float], dict[str, Any]]] = field(default_factory=list)
    parts: int = 0

    def count(self) -> int:
        return len(self.rows)

    def get(
        self, where: dict[str, Any] | None, limit: int, offset: int, include: list[str]
    ) -> dict[str, Any]:
        assert include == ["embeddings", "documents", "metadatas"]
        self.parts += 1
        kept = [row for row in self.rows if not where or where.items() <= row[2].items()]
        part = list(enumerate(kept))[offset : offset + limit]
        return {
            "ids": [str(number) for number, _ in part],
            "documents": [text for _, (text, _, _) in part],
            "metadatas": [given for _, (_, _, given) in part],
            "embeddings": np.array([vector for _, (_, vector, _) in part], dtype=np.float32),
        }


class Store:
    """Open WebUI's class for Chroma, whose index has lost the passage."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self.client = SimpleNamespace(get_collection=lambda **_: collection)

    def has_collection(self, name: str) -> bool:
        return name == "papers"

    def search(self, *_: Any) -> str:
        return "by the index"


@pytest.fixture
def store() -> Store:
    """A document with its only relevant passage behind 2,500 copies of another one."""
    copy = [0.4, 0.9] + [0.0] * (SIZE - 2)
    rows = [("copy", copy, {"file": "a"}) for _ in range(2500)]
    # As near as the question itself, but longer: only the angle counts.
    rows.append(("the key", [3 * value for value in QUESTION], {"file": "a"}))
    rows.append(("nothing", [0.0] * SIZE, {"file": "b"}))
    rows.append(("opposite", [-value for value in QUESTION], {"file": "b"}))
    return Store(Collection(rows))


@pytest.fixture(autouse=True)
def patched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "search", Store.search)
    module = ModuleType("chroma")
    module.__dict__.update(ChromaClient=Store, SearchResult=SimpleNamespace)
    passages.patch(module)


def search(store: Store, **options: Any) -> Any:
    # As Open WebUI calls it.
    return store.search(
        **{"collection_name": "papers", "vectors": [QUESTION], "limit": LIMIT, **options}
    )


def test_a_passage_behind_many_copies_is_the_first(store: Store) -> None:
    found = search(store)
    assert found.documents == [["the key"] + ["copy"] * 4]
    assert found.metadatas[0][0] == {"file": "a"}
    assert found.ids[0][0] == "2500"
    assert found.distances[0][0] == pytest.approx(1)
    assert found.distances[0][1] < 0.75
    assert store.collection.parts == 3


def test_every_question_has_its_own_passages_and_the_filter_holds(store: Store) -> None:
    opposite = [-value for value in QUESTION]
    found = search(store, vectors=[QUESTION, opposite], filter={"file": "b"}, limit=2)
    assert found.documents == [["nothing", "opposite"], ["opposite", "nothing"]]
    assert found.distances == [pytest.approx([0.5, 0]), pytest.approx([1, 0.5])]


def test_the_index_is_used_without_a_collection_and_for_a_large_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert search(store, collection_name="unknown") == "by the index"
    monkeypatch.setattr(passages, "MOST", 2503)
    assert search(store) != "by the index"
    monkeypatch.setattr(passages, "MOST", 2502)
    assert search(store) == "by the index"


def test_an_empty_collection_has_no_passages(store: Store) -> None:
    store.collection.rows.clear()
    assert search(store).documents == [[]]
