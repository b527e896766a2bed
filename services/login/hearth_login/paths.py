"""Where a browser may be sent after signing in: only to a path of the same host."""

import re
from urllib.parse import quote, urlsplit

PREFIX = "/hearth-login/"

# Browsers drop tabs and line ends from an address and read "\" as "/", so that "/\t/evil.example"
# and "/\evil.example" leave the house; such an address is none of ours.
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")


def local_path(wanted: str) -> str:
    """Return `wanted` when it is a path of this host, else "/"."""
    if not wanted.startswith("/") or wanted.startswith("//") or len(wanted) > 2048:
        return "/"
    if _UNSAFE.search(wanted):
        return "/"
    try:
        parts = urlsplit(wanted)
    except ValueError:
        return "/"
    if parts.scheme or parts.netloc or parts.path.startswith(PREFIX):
        return "/"
    # A header takes ASCII only; what is encoded already stays as it is.
    return quote(wanted, safe="/%?&=#+,;:@!$'()*~[]-._", errors="replace")
