"""Measure how fast this machine copies memory: it limits how fast a processor generates text."""

import ctypes
import mmap
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hearth.machine.facts import memory_bytes, text_of

LEAST_BYTES, MOST_BYTES = 128 * 2**20, 512 * 2**20
_CACHES, _SHARE = 4, 4
_ROUNDS, _LEAST_ROUNDS, _WITHIN_S = 10, 3, 0.7


def copy_rates(root: Path = Path("/")) -> tuple[list[float], int]:
    """Return the bytes per second of each copy, read and written together, and the bytes of one.

    All processors that this process may use copy at once, for less than a second. The buffer is
    four times the size of the caches, so that they do not help. Without enough free memory
    nothing is measured.
    """
    size = buffer_bytes(root)
    if 2 * size * _SHARE > memory_bytes(root, "MemAvailable"):
        return [], size
    return _measure(size, len(os.sched_getaffinity(0))), size


def buffer_bytes(root: Path) -> int:
    """Return the size of a buffer that is far larger than the caches."""
    shared = {
        (text_of(cache / "shared_cpu_list"), text_of(cache / "size"))
        for cache in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cache/index3")
    }
    sizes = (size.removesuffix("K") for _, size in shared)
    cached = sum(1024 * int(size) for size in sizes if size.isdecimal())
    return min(MOST_BYTES, max(LEAST_BYTES, _CACHES * cached))


def _measure(size: int, threads: int) -> list[float]:
    with mmap.mmap(-1, size) as source, mmap.mmap(-1, size) as target:
        # Pages exist only once they are written: equal ones would all be the same page.
        _fill(source)
        pieces = [(n * size // threads, (n + 1) * size // threads) for n in range(threads)]
        read, write = (_address(one) for one in (source, target))

        def copy(piece: tuple[int, int]) -> None:
            # ctypes releases the interpreter's lock for the time of the call.
            ctypes.memmove(write + piece[0], read + piece[0], piece[1] - piece[0])

        rates: list[float] = []
        with ThreadPoolExecutor(threads) as pool:
            # The first copy creates the pages, and belongs to no figure.
            list(pool.map(copy, pieces))
            began = time.perf_counter()
            while len(rates) < _LEAST_ROUNDS or (
                len(rates) < _ROUNDS and time.perf_counter() - began < _WITHIN_S
            ):
                start = time.perf_counter()
                list(pool.map(copy, pieces))
                rates.append(2 * size / (time.perf_counter() - start))
        return rates


def _fill(buffer: mmap.mmap) -> None:
    ctypes.memset(_address(buffer), 1, len(buffer))


def _address(buffer: mmap.mmap) -> int:
    # The object must not outlive this line, or the buffer could not be closed.
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
