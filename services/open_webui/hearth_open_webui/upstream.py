"""Inspect the installed Open WebUI, to update this package for another version.

`python3 -m hearth_open_webui.upstream variables` prints the variables that it reads, one per line;
names.txt beside this file contains them. `... scripts` prints the hashes of the inline scripts in
its start page; the policy in inventory/services.yml allows only these.
"""

import base64
import hashlib
import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path

_READS = re.compile(
    r"(?:getenv|environ\.get|_int_env)\(\s*['\"]([A-Z][A-Z0-9_]*)['\"]"
    r"|environ\[['\"]([A-Z][A-Z0-9_]*)['\"]\]"
)
# The format of variables in its table of security headers.
_HEADER = re.compile(r"^\s*'([A-Z][A-Z_]*)': set_\w+,$", re.MULTILINE)
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def variables(folder: Path) -> list[str]:
    """Return every environment variable that the program in `folder` reads, sorted."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        found.update(first or second for first, second in _READS.findall(text))
        if path.name == "security_headers.py":
            found.update(_HEADER.findall(text))
    return sorted(found)


def scripts(folder: Path) -> list[str]:
    """Return the hashes of the start page's inline scripts for a Content-Security-Policy."""
    page = (folder / "frontend" / "index.html").read_text(encoding="utf-8")
    digests = (hashlib.sha256(script.encode()).digest() for script in _SCRIPT.findall(page))
    return [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]


COMMANDS = {"variables": variables, "scripts": scripts}


def main(arguments: Sequence[str]) -> int:
    """Print the variables or the scripts; return 2 for any other command."""
    package = importlib.util.find_spec("open_webui")
    if len(arguments) != 1 or arguments[0] not in COMMANDS or package is None or not package.origin:
        print(f"usage: {' | '.join(COMMANDS)}; Open WebUI must be installed", file=sys.stderr)
        return 2
    print("\n".join(COMMANDS[arguments[0]](Path(package.origin).parent)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
