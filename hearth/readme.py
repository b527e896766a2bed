"""Keeps the documents true: their tables come from the catalogue, their commands can be run.

`python -m hearth.readme` rewrites README.md and docs/commands.md, `--check` says whether it would.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hearth.catalogue import House, derive, load
from hearth.catalogue.read import FILES
from hearth.commands import commands_page

ROOT = Path(__file__).resolve().parent.parent
_AUTH = {"key": "a key", "house": "the house's password", "lan": "open", "own": "its own login"}
_RUN = re.compile(r"<!-- run: (lab|no), ?(.*?) ?-->|<!-- run: (lab) -->")
_LOUD = frozenset({"sh", "bash", "shell", "console"})


class ReadmeError(Exception):
    """One line for a person: which document, which line, what to write."""


@dataclass(frozen=True, slots=True)
class Block:
    """One command block of a document: `lab` says that the lab runs it, `reason` why not."""

    line: int
    lab: bool
    reason: str
    command: str


def blocks(text: str) -> list[Block]:
    """Return the command blocks of a Markdown text, in order.

    Each stands below `<!-- run: lab -->` (it is run from the project's folder, as root, in a lab
    machine whose house is up) or `<!-- run: no, REASON -->`.

    Raises:
        ReadmeError: a block without such a line, or a fence that is never closed.
    """
    found = []
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        opened = re.fullmatch(r"(\s*)(`{3,})(\w*)\s*", lines[number])
        if not opened:
            number += 1
            continue
        end = _end(lines, number, opened[2])
        if opened[3] in _LOUD:
            lab, reason = _marker(lines, number)
            command = "\n".join(line.removeprefix(opened[1]) for line in lines[number + 1 : end])
            found.append(Block(number + 1, lab, reason, command))
        number = end + 1
    return found


def _end(lines: list[str], start: int, fence: str) -> int:
    for number in range(start + 1, len(lines)):
        if lines[number].strip() == fence:
            return number
    raise ReadmeError(f"line {start + 1}: this block is never closed: write {fence} after it")


def _marker(lines: list[str], fence: int) -> tuple[bool, str]:
    above = lines[fence - 1].strip() if fence else ""
    match = _RUN.fullmatch(above)
    if not match or (match[1] == "no" and not match[2]):
        raise ReadmeError(
            f"line {fence + 1}: nobody knows whether this can be run: write <!-- run: lab --> or "
            "<!-- run: no, REASON --> above it"
        )
    return match[1] != "no", match[2] or ""


def shipped_house(inventory: Path = ROOT / "inventory") -> House:
    """Return the house that the project ships, without the user's own settings."""
    with tempfile.TemporaryDirectory() as folder:
        for name in FILES:
            shutil.copy(inventory / f"{name}.yml", folder)
        catalogue = load(Path(folder))
    # As if every key were there: the tables show all members of an alias, in their order.
    keys = (provider.secret for provider in catalogue.providers.values())
    return derive(catalogue, frozenset(key for key in keys if key))


def service_table(house: House) -> str:
    """Return the table of services and parts."""
    rows = [
        (
            f"**{owner.name}**",
            owner.summary,
            ", ".join(f"`https://{s.fqdn}`: {_AUTH[s.auth]}" for s in owner.publish) or "-",
            where,
        )
        for where, owners in (
            ("instance", house.services.values()),
            ("machine", house.parts.values()),
        )
        for owner in owners
    ]
    return _table(("name", "what it does", "on your LAN", "runs on"), rows)


def model_table(house: House) -> str:
    """Return the table of aliases, each with its models in order."""
    rows = []
    for name, alias in house.aliases.items():
        models = [house.models[member] for member in alias.members]
        shown = [model.name if model.local else f"{model.name} (cloud)" for model in models]
        size = sum(model.download_bytes or 0 for model in models)
        rows.append((f"`{name}`", alias.summary, ", ".join(shown), f"{size / 1e9:.1f} GB"))
    return _table(("write", "for", "asked in this order", "to download"), rows)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def rewrite(text: str, house: House) -> str:
    """Return the text with everything between `<!-- NAME: generated -->` markers made anew."""
    for name, table in (("services", service_table(house)), ("models", model_table(house))):
        marker, end = f"<!-- {name}: generated -->", f"<!-- /{name} -->"
        before, there, rest = text.partition(marker)
        _, closed, after = rest.partition(end)
        if not there or not closed:
            raise ReadmeError(f"README.md: {marker} … {end} is missing: put both lines back")
        text = f"{before}{marker}\n{table}\n{end}{after}"
    return text


def documents(root: Path = ROOT) -> Iterator[tuple[Path, str]]:
    """Yield each document with generated parts, and what it should hold."""
    readme = root / "README.md"
    yield readme, rewrite(readme.read_text(encoding="utf-8"), shipped_house(root / "inventory"))
    yield root / "docs" / "commands.md", commands_page()


def stale(root: Path = ROOT) -> list[Path]:
    """Return the documents that differ from what they should hold."""
    return [path for path, text in documents(root) if not _holds(path, text)]


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def main(arguments: list[str] | None = None) -> int:
    """Rewrite the documents, or with `--check` only say which ones are stale."""
    parser = argparse.ArgumentParser(prog="python -m hearth.readme", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if one is stale")
    chosen = parser.parse_args(arguments)
    old = stale()
    if chosen.check:
        for path in old:
            print(f"{path}: stale: run `python -m hearth.readme`", file=sys.stderr)
        return 1 if old else 0
    for path, text in documents():
        if path in old:
            path.write_text(text, encoding="utf-8")
            print(f"rewritten: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
