"""Find the passages of documents that are nearest to a question exactly.

Chroma's index links each passage to its 32 nearest ones. If a collection has more copies of one
passage than that, each of them is linked to other copies only. A search that meets them finds
nothing else, whatever the question is.
"""

from __future__ import annotations

import heapq
import importlib
from collections.abc import Callable, Sequence
from operator import itemgetter
from types import ModuleType
from typing import Any

import numpy as np

# Open WebUI's class for Chroma, and its function that finds passages.
MODULE, CLASS, FUNCTION = "open_webui.retrieval.vector.dbs.chroma", "ChromaClient", "search"
# A search among so many takes about a second. With more, the index is used.
MOST = 20_000
_PART = 1000
_COLUMNS = ("distances", "ids", "documents", "metadatas")

Passage = tuple[float, str, str, dict[str, Any]]


def patch(module: ModuleType | None = None) -> None:
    """Make a search exact in every collection of up to `MOST` passages.

    Raises:
        AttributeError: this version of Open WebUI has no such function.
    """
    target: Any = module or importlib.import_module(MODULE)
    store = getattr(target, CLASS)
    setattr(store, FUNCTION, exact(getattr(store, FUNCTION), target.SearchResult))


def exact(search: Callable[..., Any], result: Callable[..., Any]) -> Callable[..., Any]:
    """Return Open WebUI's `search` in an exact form; both return a `result`."""

    def find(
        store: Any,
        collection_name: str,
        vectors: Sequence[Sequence[float]],
        filter: dict[str, Any] | None = None,
        limit: int = 10,
    ) -> Any:
        if store.has_collection(collection_name):
            collection = store.client.get_collection(name=collection_name, embedding_function=None)
            if collection.count() <= MOST:
                found = [nearest(collection, vector, filter, limit) for vector in vectors]
                lists = {
                    name: [[passage[at] for passage in passages] for passages in found]
                    for at, name in enumerate(_COLUMNS)
                }
                return result(**lists)
        return search(store, collection_name, vectors, filter, limit)

    return find


def nearest(
    collection: Any, vector: Sequence[float], where: dict[str, Any] | None, limit: int
) -> list[Passage]:
    """Return the nearest passages: (1 + cosine) / 2, ID, text and metadata of each."""
    wanted = np.asarray(vector, dtype=np.float32)
    best: list[Passage] = []
    for start in range(0, collection.count(), _PART):
        part = collection.get(
            where=where,
            limit=_PART,
            offset=start,
            include=["embeddings", "documents", "metadatas"],
        )
        if not part["ids"]:
            break
        rows = np.asarray(part["embeddings"], dtype=np.float32)
        lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(wanted)
        scores = (1 + rows @ wanted / np.maximum(lengths, 1e-12)) / 2
        passages = zip(
            scores.tolist(), part["ids"], part["documents"], part["metadatas"], strict=True
        )
        best = heapq.nlargest(limit, [*best, *passages], key=itemgetter(0))
    return best
