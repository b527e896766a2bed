"""Write the table of variables into each role's README: `python -m tests.roledocs`.

The meaning comes from meta/argument_specs.yml and the value from defaults/main.yml; a test says
when a README is behind.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROLES = Path(__file__).parent.parent / "roles"
BEGIN = "<!-- variables: written by `python -m tests.roledocs` -->"
END = "<!-- end of variables -->"


def role_folders() -> list[Path]:
    """Every role of the project."""
    return sorted(path for path in ROLES.iterdir() if path.is_dir())


def defaults(role: Path) -> dict[str, Any]:
    """The role's knobs with their values; a template stays as it is written."""
    path = role / "defaults/main.yml"
    return yaml.safe_load(path.read_text()) if path.exists() else {}


def comments(role: Path) -> dict[str, str]:
    """What stands above each knob in the role's defaults."""
    path = role / "defaults/main.yml"
    text = path.read_text() if path.exists() else ""
    found = re.finditer(r"((?:^#.*\n)+)^(\w+):", text, re.MULTILINE)
    return {match[2]: _joined(match[1].replace("#", " ")) for match in found}


def options(role: Path) -> dict[str, dict[str, Any]]:
    """The knobs as the role's specification has them."""
    spec = yaml.safe_load((role / "meta/argument_specs.yml").read_text())
    found: dict[str, dict[str, Any]] = spec["argument_specs"]["main"]["options"]
    return found


def table(role: Path) -> str:
    """The README's part between the two marks."""
    values, meant = defaults(role), options(role)
    if not meant:
        return f"{BEGIN}\nThere is nothing to set: everything follows from the catalogue.\n{END}"
    rows = [f"| `{name}` | {_shown(values[name])} | {_cell(meant[name])} |" for name in meant]
    head = ["| variable | default | meaning |", "|---|---|---|"]
    return "\n".join([BEGIN, *head, *rows, END])


def _shown(value: object) -> str:
    if isinstance(value, str) and "{{" in value:
        return "worked out"
    if isinstance(value, list) and value:
        return ", ".join(f"`{item}`" for item in value)
    return f"`{value if isinstance(value, str) and value else json.dumps(value)}`"


def _cell(option: Mapping[str, Any]) -> str:
    return _joined(str(option["description"])).replace("|", "\\|")


def _joined(text: str) -> str:
    return " ".join(text.split())


def renewed(text: str, role: Path) -> str:
    """The README with its table as it should be now."""
    before, mark, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not mark:
        return f"{text.rstrip()}\n\n## Variables\n{table(role)}\n"
    return before + table(role) + after


def main() -> None:
    """Renew every README."""
    for role in role_folders():
        path = role / "README.md"
        path.write_text(renewed(path.read_text(), role))


if __name__ == "__main__":
    main()
