"""The HTML of the approvals' pages: every text is escaped, and hidden characters are shown."""

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from hearth.approvals.characters import visible
from hearth.approvals.proposal import Mark
from hearth.approvals.taint import pattern

_CLASSES = {"+": "added", "-": "removed", "@": "place"}
_STATES = {
    "pending": "waits for you",
    "approved": "approved, is about to be done",
    "running": "is being done",
    "done": "done",
    "failed": "failed",
    "taken_back": "taken back",
    "refused": "refused",
    "expired": "expired",
    "void": "void",
}


class Renderer:
    """Renders whole documents with the version of the page's files."""

    def __init__(self, files: str) -> None:
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            undefined=jinja2.StrictUndefined,
        )
        self._templates.globals |= {"files": files, "lines": diff_lines, "argument": argument}
        self._templates.filters |= {
            "shown": visible,
            "state": lambda state: _STATES.get(state, state),
            "clock": lambda at: time.strftime("%H:%M:%S", time.localtime(at)),
            "day": lambda at: time.strftime("%F %R", time.localtime(at)),
            "left": seconds_left,
            "minutes": lambda seconds: f"{seconds // 60}:{seconds % 60:02}",
        }

    def document(self, template: str, /, **values: Any) -> str:
        """Return a whole document."""
        return self._templates.get_template(template).render(values)


def seconds_left(expires: int) -> int:
    """Return how long a proposal may still be approved."""
    return max(0, int(expires - time.time()))


def argument(value: object, name: str, marks: Sequence[Mark]) -> Markup:
    """Return the value of an argument, with what came from outside marked."""
    text = value if isinstance(value, str) else repr(value)
    return _marked(text, [one for one in marks if _is_about(one, name)])


def diff_lines(text: str, title: str, marks: Sequence[Mark]) -> Iterator[tuple[str, Markup]]:
    """Yield the class and the content of each line of a diff; only new ones are marked."""
    about = [one for one in marks if one.argument.startswith("files.")]
    about = [one for one in about if title.endswith(one.argument.removeprefix("files."))]
    for number, line in enumerate(text.split("\n")):
        kind = "place" if number < 2 else _CLASSES.get(line[:1], "")
        yield kind, _marked(line, about if kind == "added" else [])


def _is_about(mark: Mark, name: str) -> bool:
    return mark.argument == name or mark.argument.startswith((f"{name}.", f"{name}["))


def _marked(text: str, marks: Sequence[Mark]) -> Markup:
    """Return a text whose marked parts say where they come from."""
    if not marks:
        return escape(visible(text))
    found = re.compile("|".join(f"(?:{pattern(one).pattern})" for one in marks), re.IGNORECASE)
    origins = ", ".join(dict.fromkeys(visible(one.origin) for one in marks))
    pieces, at = Markup(), 0
    for match in found.finditer(text):
        pieces += escape(visible(text[at : match.start()]))
        pieces += Markup('<mark title="{}">{}</mark>').format(origins, visible(match[0]))
        at = match.end()
    return pieces + escape(visible(text[at:]))
