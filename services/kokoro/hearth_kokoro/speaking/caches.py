"""Remembers what was used last, within a bound in bytes."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# What Python and the dictionary need for an entry besides its value, roughly.
_ENTRY_BYTES = 200


class Cache(Generic[K, V]):
    """Keeps the values used last, as many as fit into so many bytes; one thread uses it."""

    def __init__(self, limit_bytes: int, size: Callable[[K, V], int]) -> None:
        """Take the bound, and what says how many bytes a key with its value holds."""
        self._limit, self._size = limit_bytes, size
        self._kept: OrderedDict[K, V] = OrderedDict()
        self.bytes = self.hits = self.misses = 0

    def __contains__(self, key: K) -> bool:
        """Tell whether it is there, without using it."""
        return key in self._kept

    def get(self, key: K) -> V | None:
        """Return the value and count a hit or a miss."""
        value = self._kept.get(key)
        if value is None:
            self.misses += 1
            return None
        self.hits += 1
        self._kept.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Keep the value; forget the ones longest unused; what is larger than all is not kept."""
        size = self._bytes_of(key, value)
        if size > self._limit:
            return
        if key in self._kept:
            self.bytes -= self._bytes_of(key, self._kept.pop(key))
        self._kept[key] = value
        self.bytes += size
        while self.bytes > self._limit:
            self.bytes -= self._bytes_of(*self._kept.popitem(last=False))

    def _bytes_of(self, key: K, value: V) -> int:
        return _ENTRY_BYTES + self._size(key, value)

    def figures(self) -> dict[str, int]:
        """Return hits, misses and bytes for the status."""
        return {"hits": self.hits, "misses": self.misses, "bytes": self.bytes}
