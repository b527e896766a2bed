"""Keep the documents true: their tables come from the catalogue, their commands can be run.

`python -m tests.documents` rewrites the generated parts of docs/; `--check` only compares them.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer.main
from pydantic import TypeAdapter
from typer.cli import get_docs_for_click

from hearth.catalogue import House, derive, load
from hearth.catalogue.records import FILES
from hearth.cli.app import app
from hearth.doctor import kinds
from hearth.doctor.examination import EXPLAINS
from hearth.smoke.receipt import FORM, Receipt
from tests import grafana
from tests.attacks.page import attacks_page
from tests.configuration import configuration_page
from tests.lab_machine.cli import app as lab
from tests.role_data import lost_in_containers, reference_house

ROOT = Path(__file__).resolve().parent.parent
_AUTH = {"key": "a key", "house": "the house's password", "lan": "open", "own": "its own login"}
_RUN = re.compile(r"<!-- run: (lab|no), ?(.*?) ?-->|<!-- run: (lab) -->")
_SHELLS = frozenset({"sh", "bash", "shell", "console"})
_COMMANDS = """# Commands

`scripts/up` and `scripts/test` need nothing installed. Everything else is `scripts/hearth`, called
`hearth` below; it works after the first `scripts/up`. The commands are thin wrappers: you can do
the same with `ansible-playbook site.yml` and `pytest` from `.venv/bin`.

Exit codes: 0 success, 1 a problem was found, 2 incorrect use. `--json` is for programs. This page
is written by `python -m tests.documents` from the commands' own help.

"""
# Of typer's page: every command has --help, and its list of commands cuts their help off.
_PLAINER = {
    r"^\* `--(help|\w+-completion)`.*\n": "",
    r"^\*\*Commands\*\*:\n\n(\* .*\n)+": "",
    r"^\*\*Usage\*\*:\n\n```console\n\$ (.*)\n```": r"`\1`",
    r"^\*\*(Options|Arguments)\*\*:\n\n": "",
    r"^Example: (.+)$": r"Example: `\1`",
    r"^Exit codes.*\n": "",
    r"^#": "##",
    r"\n{3,}": r"\n\n",
}


class DocumentError(Exception):
    """One line for a person: which document, which line, what to write."""


@dataclass(frozen=True, slots=True)
class Block:
    """One command block of a document: whether the lab runs it, or the `reason` why not."""

    line: int
    lab: bool
    reason: str
    command: str


def blocks(text: str) -> list[Block]:
    """Return the command blocks of a Markdown text, in order.

    Each follows `<!-- run: lab -->` (run from the project's folder, as root, in a lab machine
    whose house is up) or `<!-- run: no, REASON -->`.

    Raises:
        DocumentError: a block has no such line, or a fence is never closed.
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
        if opened[3] in _SHELLS:
            lab, reason = _marker(lines, number)
            command = "\n".join(line.removeprefix(opened[1]) for line in lines[number + 1 : end])
            found.append(Block(number + 1, lab, reason, command))
        number = end + 1
    return found


def _end(lines: list[str], start: int, fence: str) -> int:
    for number in range(start + 1, len(lines)):
        if lines[number].strip() == fence:
            return number
    raise DocumentError(f"line {start + 1}: this block is never closed: write {fence} after it")


def _marker(lines: list[str], fence: int) -> tuple[bool, str]:
    above = lines[fence - 1].strip() if fence else ""
    match = _RUN.fullmatch(above)
    if not match or (match[1] == "no" and not match[2]):
        raise DocumentError(
            f"line {fence + 1}: write <!-- run: lab --> or <!-- run: no, REASON --> above it"
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
            ", ".join(f"`https://{s.fqdn}`: {_AUTH[s.auth]}" for s in owner.sites) or "-",
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
    return _table(("alias", "purpose", "models, tried in this order", "download"), rows)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def site_table(house: House) -> str:
    """Return the table of published names: who may use each, and which paths."""
    rows = [
        (
            f"`https://{site.fqdn}`",
            _AUTH[site.auth],
            (", ".join(f"`{path}`" for path in site.paths) or "all")
            + "".join(f"; open to all: `{path}`" for path in site.open),
        )
        for site in house.sites
    ]
    return _table(("address", "access", "paths"), rows)


def lost_table() -> str:
    """Return the table of the rules of units that containers do not have."""
    with tempfile.TemporaryDirectory() as folder:
        lost = lost_in_containers(reference_house(Path(folder)))
    common = set.intersection(*({*rules.items()} for rules in lost.values()))
    rows = [("all", _rules(common))]
    rows += [
        (f"`{name}`", _rules({*rules.items()} - common) or "-") for name, rules in lost.items()
    ]
    return _table(("program", "rules of its unit"), rows)


def _rules(rules: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"`{rule}={value}`" for rule, value in sorted(rules))


def rewrite(text: str, tables: Mapping[str, str]) -> str:
    """Return the text with everything between `<!-- NAME: generated -->` markers rebuilt."""
    for name, table in tables.items():
        marker, end = f"<!-- {name}: generated -->", f"<!-- /{name} -->"
        before, there, rest = text.partition(marker)
        _, closed, after = rest.partition(end)
        if not there or not closed:
            raise DocumentError(f"{marker} … {end} is missing: put both lines back")
        text = f"{before}{marker}\n{table}\n{end}{after}"
    return text


def commands_page() -> str:
    """Return the page of all commands, in the order of `hearth --help`."""
    page = _COMMANDS
    for name, tool in (("hearth", app), ("hearth lab", lab)):
        command = typer.main.get_command(tool)
        context = typer.Context(command, info_name=name)
        text = html.unescape(get_docs_for_click(obj=command, ctx=context, name=name))
        for pattern, shown in _PLAINER.items():
            text = re.sub(pattern, shown, text, flags=re.M)
        page += text
    return page.rstrip("\n") + "\n"


_MADE = "<!-- Written by `python -m tests.documents` from hearth/doctor/kinds.py. -->"
_HEALS = {True: "`sudo hearth doctor --fix` heals it", False: "to be repaired by hand"}


def finding_pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of the page of each kind of finding, and of their index."""
    rows = [
        (f"[{one.name}]({one.name}.md)", one.severity, one.title, "yes" if one.fixable else "")
        for one in kinds.ALL.values()
    ]
    table = _table(("finding", "severity", "what", "healed by `--fix`"), rows)
    yield "README", f"# Findings of `hearth doctor`\n\n{_MADE}\n\n{table}\n"
    for one in kinds.ALL.values():
        also = sorted(other.name for other in EXPLAINS.get(one, ()))
        links = ", ".join(f"[{name}]({name}.md)" for name in also)
        page = [
            f"# {one.name}: {one.title}",
            _MADE,
            f"Severity: {one.severity}; {_HEALS[one.fixable]}.",
            f"## What it means\n\n{one.means}",
            f"## What to do\n\n{one.todo}",
        ]
        if also:
            why = "These are not shown beside it where they are only its consequence"
            page.append(f"## What it explains\n\n{why}: {links}.")
        page.append("[All findings](README.md) · [Troubleshooting](../troubleshooting.md)")
        yield one.name, "\n\n".join(page) + "\n"


def receipt_schema() -> str:
    """Return the JSON schema of a receipt."""
    schema = TypeAdapter(Receipt).json_schema(mode="serialization")
    counts = {"type": "object", "additionalProperties": {"type": "integer"}}
    # Two that are computed, beside those that are kept.
    schema["properties"] |= {"summary": counts, "good": {"type": "boolean"}}
    schema["required"] += ["summary", "good"]
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": FORM}
    return json.dumps(head | schema, indent=2, ensure_ascii=False) + "\n"


def documents(root: Path = ROOT) -> Iterator[tuple[Path, str]]:
    """Yield each document with generated parts, and what it should hold."""
    house = shipped_house(root / "inventory")
    for name, tables in (
        ("catalogue", {"services": service_table(house), "models": model_table(house)}),
        ("http-api", {"sites": site_table(house)}),
        ("containers", {"lost": lost_table()}),
    ):
        path = root / "docs" / f"{name}.md"
        yield path, rewrite(path.read_text(encoding="utf-8"), tables)
    yield root / "docs" / "commands.md", commands_page()
    yield root / "docs" / "configuration.md", configuration_page()
    yield root / "docs" / "schema" / "receipt.json", receipt_schema()
    for name, text in finding_pages():
        yield root / "docs" / "findings" / f"{name}.md", text
    yield root / "docs" / "grafana-dashboard.json", grafana.dashboard()
    yield root / "docs" / "attacks.md", attacks_page()


def stale(root: Path = ROOT) -> list[Path]:
    """Return the documents that differ from what they should hold."""
    wanted = dict(documents(root))
    gone = {*(root / "docs" / "findings").glob("*.md")} - wanted.keys()
    return [*(path for path, text in wanted.items() if not _holds(path, text)), *sorted(gone)]


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def main(arguments: list[str] | None = None) -> int:
    """Rewrite the documents, or with `--check` only report which ones are stale."""
    parser = argparse.ArgumentParser(prog="python -m tests.documents", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit with 1 if one is stale"
    )
    chosen = parser.parse_args(arguments)
    old = stale()
    if chosen.check:
        for path in old:
            print(f"{path}: stale: run `python -m tests.documents`", file=sys.stderr)
        return 1 if old else 0
    wanted = dict(documents())
    for path in old:
        if path in wanted:
            path.parent.mkdir(exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()
        print(f"rewritten: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
