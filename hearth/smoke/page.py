"""The receipt as files: JSON for programs, and one page that needs nothing but itself."""

import json
from datetime import UTC, datetime
from pathlib import Path

import jinja2

from hearth.files import write_atomic
from hearth.smoke.receipt import Receipt, VerifyError

_TEMPLATE = Path(__file__).with_name("receipt.html.j2")


def write(receipt: Receipt, folder: Path) -> None:
    """Write `receipt.json` and `index.html`, each whole or not at all.

    Raises:
        VerifyError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        text = json.dumps(receipt.as_json(), indent=2, ensure_ascii=False)
        write_atomic(folder / "receipt.json", text.encode() + b"\n")
        write_atomic(folder / "index.html", render(receipt).encode())
    except OSError as error:
        raise VerifyError(
            f"cannot write the receipt: {error}: run this as root on the house"
        ) from error


def render(receipt: Receipt) -> str:
    """Return the page of a receipt: plain HTML, no script, nothing from outside."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["gib"] = gib
    environment.filters["number"] = number
    environment.filters["moment"] = moment
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    return template.render(r=receipt)


def gib(count: int) -> str:
    """Return bytes as people read memory."""
    return f"{count / 2**30:.1f} GiB"


def number(value: float) -> str:
    """Return a figure with three digits that mean something."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def moment(iso: str) -> str:
    """Return a time as people read it, in UTC."""
    return datetime.fromisoformat(iso).astimezone(UTC).strftime("%-d %B %Y, %H:%M UTC")
