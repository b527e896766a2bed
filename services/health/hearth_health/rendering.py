"""The page's HTML: each section by itself, so that one that cannot be shown leaves the others."""

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from . import view

log = logging.getLogger("hearth_health")

_CODE = re.compile(r"`([^`]*)`")
SECTIONS = (
    "summary", "tiles", "findings", "services", "models", "numbers", "turn", "cloud", "trend",
    "plan", "machine",
)  # fmt: skip


def _moment(value: object) -> Markup:
    stamp = view.iso(value)
    if not stamp:
        return Markup("–")  # noqa: RUF001
    return Markup('<time datetime="{}">{}</time>').format(stamp, view.clock(value))


def _prose(value: object) -> Markup:
    """Return a text with its `commands` marked as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(value or ""))))  # noqa: S704 - escaped


def environment() -> jinja2.Environment:
    """Return the templates; every value in them is escaped."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "size": view.short_bytes,
        "number": view.short_number,
        "moment": _moment,
        "prose": _prose,
    }
    return made


class Renderer:
    """Renders sections and whole documents with the version of the page's files."""

    def __init__(self, files: str) -> None:
        self._templates = environment()
        # Sections are rendered every second; one that fails is logged once.
        self._failing: set[str] = set()
        self._templates.globals |= {"files": files}

    def sections(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Return the HTML of every section; one that fails says so."""
        return {name: self._section(name, values) for name in SECTIONS}

    def _section(self, name: str, values: Mapping[str, Any]) -> str:
        try:
            text = self._templates.get_template(f"{name}.html").render(values)
            self._failing.discard(name)
            return text
        except Exception as error:  # whatever the watcher wrote, the other sections are shown
            if name not in self._failing:
                log.warning("section %s: %s", name, type(error).__name__)
            self._failing.add(name)
            text = f"This part cannot be shown: what the watcher wrote is not valid ({name})."
            return f'<p class="small">{escape(text)}</p>'

    def document(self, template: str, /, **values: Any) -> str:
        """Return a whole document."""
        return self._templates.get_template(template).render(values)
