"""Names, sizes, places in files, and suggestions for misspelt names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import NamedTuple

# DNS labels, unit names and Ansible hosts are made of these by turning `_` into `-`.
SNAKE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]*")
HOST = re.compile(
    r"(?=.{1,253}$)(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z](?:[a-z0-9-]*[a-z0-9])?"
)
SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(kB|MB|GB|TB|KiB|MiB|GiB|TiB)")
# A folder of an installed program.
PROGRAM = re.compile(r"[a-z0-9][a-z0-9_-]*")
PERCENT = re.compile(r"(\d{1,3})%")

_UNITS: dict[str, int] = {f"{prefix}B": 1000**power for power, prefix in enumerate("kMGT", 1)}
_UNITS |= {f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", 1)}


class Place(NamedTuple):
    """Where a value is written: the file, relative to the project, and its line from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        """Write the place the way editors and compilers do."""
        return f"{self.file}:{self.line}"


class Problem(NamedTuple):
    """One thing to change: what is wrong, and what to write instead."""

    place: Place
    text: str

    def __str__(self) -> str:
        """Write it on one line."""
        return f"{self.place}: {self.text}"


class CatalogueError(Exception):
    """The inventory cannot be used; the text has one line per problem."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: list[Problem] = sorted(set(problems))
        super().__init__("\n".join(map(str, self.problems)))


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the nearest known name, or with all of them when none is near."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]}?"
    return f"known: {', '.join(names)}" if names else "none is known"


def size_bytes(size: str) -> int:
    """Return a size such as `3.4GB` or `8GiB` in bytes."""
    unit = size.lstrip("0123456789. ")
    return round(float(size.removesuffix(unit)) * _UNITS[unit])


def hyphens(name: str) -> str:
    """Return the form of a snake_case name that units, instances and DNS use."""
    return name.replace("_", "-")


def link(instance: str) -> str:
    """Return the name of an instance's network link; the kernel accepts 15 characters."""
    return f"to-{instance}"[:15]


def program(service: str, model: str) -> str:
    """Return the program folder of a model whose files a service gets from the machine."""
    return f"{service}_{re.sub('[^a-z0-9]+', '_', model.lower())}"


def alternatives(need: str) -> list[str]:
    """Split the need `a | b` into its names."""
    return [name.strip() for name in need.split("|")]
