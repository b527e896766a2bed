"""A standalone program that is sent whole into a system: it searches for leaked secrets.

Only Python's standard library. It reads from its standard input, so that no process list
shows what it searches for: `{"needles": {name: [text, ...]}, "since": seconds, "watch": path}`.
With `watch` it looks at every process until that file exists, and otherwise through the files. It
prints names and places, never a value: `{"hits": [[name, place], ...], "looks": n,
"seconds": s}`.
"""

from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
import time

EVERY_S = 0.05
PIECE = 4 << 20
# The kernel's virtual files, and the programs that the machine copies in: they lie there, too.
NOT_FILES = ("/proc", "/sys", "/opt/hearth")


Needles = dict[str, list[bytes]]
# The hits as (name, place), how many scans there were, and how many seconds they took.
Seen = tuple[set[tuple[str, str]], int, float]


def found(content: bytes, needles: Needles) -> list[str]:
    """Name the secrets that occur in some bytes."""
    return [name for name, texts in needles.items() if any(text in content for text in texts)]


def processes(needles: Needles, stop: str) -> Seen:
    """Scan twenty times a second everything that this user may read of processes."""
    hits: set[tuple[str, str]] = set()
    looks, began = 0, time.monotonic()
    while not os.path.exists(stop):
        due = time.monotonic() + EVERY_S
        for folder in glob.glob("/proc/[0-9]*"):
            # Environments of other users are closed; one try per second is enough.
            for what in ("cmdline", "environ") if looks % 20 == 0 else ("cmdline",):
                try:
                    with open(f"{folder}/{what}", "rb") as stream:
                        content = stream.read()
                except OSError:
                    continue
                for name in found(content, needles):
                    # Only the program's name: the rest of a command line may be the secret.
                    program = os.path.basename(content.partition(b"\0")[0]).decode(
                        "ascii", "replace"
                    )
                    hits.add((name, f"{what} {program}" if what == "cmdline" else what))
        looks += 1
        time.sleep(max(0, due - time.monotonic()))
    return hits, looks, time.monotonic() - began


def files(needles: Needles, since: float) -> Seen:
    """Search every file that this user may read and that was changed since then."""
    longest = max(len(text) for texts in needles.values() for text in texts)
    hits: set[tuple[str, str]] = set()
    looks, began = 0, time.monotonic()
    for path in touched(since):
        try:
            with open(path, "rb") as stream:
                end = b""
                while piece := stream.read(PIECE):
                    hits.update((name, path) for name in found(end + piece, needles))
                    end = piece[-longest:]
        except OSError:
            continue
        looks += 1
    return hits, looks, time.monotonic() - began


def touched(since: float) -> list[str]:
    """Name the files that this user may read and whose content or mode is newer than that."""
    words = ["find", "/", "("]
    for folder in NOT_FILES:
        words += ["-path", folder, "-o"]
    words[-1:] = [")", "-prune", "-o", "-type", "f", "-newerct", f"@{since}", "-readable"]
    # It exits with 1 where a folder is closed to this user, which is normal here.
    done = subprocess.run([*words, "-print0"], capture_output=True, check=False)
    return [os.fsdecode(path) for path in done.stdout.split(b"\0") if path]


def main() -> None:
    """Scan, and print what was found."""
    request = json.load(sys.stdin)
    needles = {
        name: [text.encode() for text in texts] for name, texts in request["needles"].items()
    }
    if "watch" in request:
        hits, looks, seconds = processes(needles, request["watch"])
    else:
        hits, looks, seconds = files(needles, request["since"])
    print(json.dumps({"hits": sorted(hits), "looks": looks, "seconds": seconds}))


if __name__ == "__main__":
    main()
