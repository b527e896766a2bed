"""What the installed Open WebUI has, for who moves to another version of it.

`python3 -m hearth_open_webui.upstream variables` prints the variables that it reads, one a line:
names.txt beside this file holds them. `... scripts` prints the hashes of the scripts that stand in
its first page: the policy in inventory/services.yml allows these and no others.
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
# Its table of security headers names their variables so.
_HEADER = re.compile(r"^\s*'([A-Z][A-Z_]*)': set_\w+,$", re.MULTILINE)
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def variables(folder: Path) -> list[str]:
    """Return every environment variable that the program in `folder` reads, in order."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        found.update(first or second for first, second in _READS.findall(text))
        if path.name == "security_headers.py":
            found.update(_HEADER.findall(text))
    return sorted(found)


def scripts(folder: Path) -> list[str]:
    """Return the scripts in the first page as a Content-Security-Policy names them."""
    page = (folder / "frontend" / "index.html").read_text(encoding="utf-8")
    digests = (hashlib.sha256(script.encode()).digest() for script in _SCRIPT.findall(page))
    return [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]


WAYS = {"variables": variables, "scripts": scripts}


def main(words: Sequence[str]) -> int:
    """Print what was asked for."""
    found = importlib.util.find_spec("open_webui")
    if len(words) != 1 or words[0] not in WAYS or found is None or not found.origin:
        print(f"say one of {', '.join(WAYS)}, where Open WebUI is installed", file=sys.stderr)
        return 2
    print("\n".join(WAYS[words[0]](Path(found.origin).parent)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
