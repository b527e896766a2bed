"""Writes docs/commands.md out of the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer.main

_INTRO = """# What commands are there?

`scripts/up` and `scripts/test` need nothing installed. Everything else is `scripts/hearth`, called
`hearth` below; it works after the first `scripts/up`. A thin front: what it does can be done with
`ansible-playbook site.yml` and `pytest` from `.venv/bin`, too.

Exit codes: 0 fine, 1 a finding, 2 wrong use. `--json` is for programs. Written by
`python -m hearth.readme` from the commands' own help.
"""


def commands_page() -> str:
    """Return the page: one section per command, in the order of `hearth --help`."""
    # The command line reaches for everything; whoever only wants tables should not pay for it.
    from hearth.cli.app import app

    parts = [_INTRO]
    for words, command in _walk("hearth", typer.main.get_command(app)):
        parts.append(_section(words, command))
    return "\n".join(parts)


def _walk(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    for name, below in getattr(command, "commands", {}).items():
        here = f"{words} {name}"
        if hasattr(below, "commands"):
            yield from _walk(here, below)
        elif not below.hidden:
            yield here, below


def _section(words: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join([words, *(_argument(p) for p in arguments)])
    lines = [f"## `{usage}`", "", _prose(command.help or ""), ""]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    if options:
        lines += ["| option | meaning |", "| --- | --- |"]
        lines += [f"| {_option(p)} | {p.help or ''} |" for p in options]
        lines.append("")
    return "\n".join(lines)


def _prose(text: str) -> str:
    """Return a help text as Markdown: what can be typed is marked as such."""
    return re.sub(
        r"(Example|such as): (.+?)(\.?)$", r"\1: `\2`\3", inspect.cleandoc(text), flags=re.M
    )


def _argument(parameter: Any) -> str:
    name = str(parameter.metavar or parameter.name.upper()).removesuffix("...")
    if name.startswith("["):
        return f"{name}…" if parameter.nargs == -1 else name
    name += "…" if parameter.nargs == -1 else ""
    return name if parameter.required else f"[{name}]"


def _option(parameter: Any) -> str:
    words = ", ".join(f"`{word}`" for word in parameter.opts)
    known = parameter.default
    shown = known not in (None, False, True, "", ()) and not callable(known)
    return f"{words} (default `{known}`)" if shown else words
