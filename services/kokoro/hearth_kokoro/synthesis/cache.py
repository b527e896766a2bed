"""A least-recently-used cache with a limit in bytes."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# The approximate overhead of Python and the dictionary for one entry.
_ENTRY_BYTES = 200


class Cache(Generic[K, V]):
    """Keeps the most recently used values that fit into the limit; not safe for threads.

    `size` returns the bytes of a key with its value.
    """

    def __init__(self, limit_bytes: int, size: Callable[[K, V], int]) -> None:
        self._limit, self._size = limit_bytes, size
        self._entries: OrderedDict[K, V] = OrderedDict()
        self.bytes = self.hits = self.misses = 0

    def __contains__(self, key: K) -> bool:
        """Return whether the key is present; this does not count as a use."""
        return key in self._entries

    def get(self, key: K) -> V | None:
        """Return the value, or None, and count a hit or a miss."""
        value = self._entries.get(key)
        if value is None:
            self.misses += 1
            return None
        self.hits += 1
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Store the value and evict the least recently used ones; skip one above the limit."""
        size = self._bytes_of(key, value)
        if size > self._limit:
            return
        if key in self._entries:
            self.bytes -= self._bytes_of(key, self._entries.pop(key))
        self._entries[key] = value
        self.bytes += size
        while self.bytes > self._limit:
            self.bytes -= self._bytes_of(*self._entries.popitem(last=False))

    def _bytes_of(self, key: K, value: V) -> int:
        return _ENTRY_BYTES + self._size(key, value)

    def statistics(self) -> dict[str, int]:
        """Return hits, misses and bytes for /status."""
        return {"hits": self.hits, "misses": self.misses, "bytes": self.bytes}
