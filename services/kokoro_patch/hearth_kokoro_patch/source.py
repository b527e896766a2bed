"""Source files that can be written back byte for byte, and the marks that name their steps."""

from __future__ import annotations

import ast
import difflib
import io
import re
import tokenize
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

STEPS = {
    "sentences": "synthesise sentence by sentence, not all at once",
    "yielding": "send each piece before the next one is synthesised",
    "threads": "synthesise in a thread, so that the server answers /health meanwhile",
    "player": "make the web player work where MediaSource does not support MP3 (Firefox)",
}
ALL = frozenset(STEPS)
_BOM = b"\xef\xbb\xbf"
_MARK = re.compile(r"^(?:#|//) Patched by hearth kokoro-patch \(([a-z, ]+)\)", re.MULTILINE)


class PatchError(Exception):
    """One line for a person: the file, what was expected in it, and what to do."""


def known(steps: Iterable[str]) -> frozenset[str]:
    """Return the steps as a set.

    Raises:
        PatchError: one of them does not exist; the message lists the valid ones.
    """
    chosen = frozenset(steps)
    for name in sorted(chosen - ALL):
        near = difflib.get_close_matches(name, STEPS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(STEPS)}"
        raise PatchError(f"no step {name!r}: {hint}")
    return chosen


def ordered(steps: Iterable[str]) -> tuple[str, ...]:
    """Return the steps in the order of their documentation."""
    chosen = frozenset(steps)
    return tuple(name for name in STEPS if name in chosen)


@dataclass(frozen=True, slots=True)
class Source:
    """A file's text, with the encoding and byte order mark to restore its bytes."""

    path: str
    text: str
    encoding: str
    bom: bool

    @property
    def newline(self) -> str:
        """The line ending of this file, taken from its first line."""
        first = self.text.find("\n")
        return "\r\n" if first > 0 and self.text[first - 1] == "\r" else "\n"

    def encode(self, text: str) -> bytes:
        """Return another text of the same file as bytes.

        Raises:
            PatchError: the file's encoding cannot represent the text.
        """
        try:
            return (_BOM if self.bom else b"") + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise PatchError(f"{self.path}: {error}: save it as UTF-8") from None


def read(path: str, content: bytes) -> Source:
    """Decode a Python or JavaScript file by its byte order mark, its cookie, or as UTF-8.

    Raises:
        PatchError: it is not text in the encoding that it names.
    """
    bom = content.startswith(_BOM)
    body = content.removeprefix(_BOM)
    encoding = "utf-8"
    try:
        if path.endswith(".py"):
            encoding = tokenize.detect_encoding(io.BytesIO(body).readline)[0]
        text = body.decode(encoding)
    except (UnicodeDecodeError, SyntaxError, LookupError) as error:
        raise PatchError(
            f"{path}: is not text that can be read ({error}): save it as UTF-8, or get it again "
            "from its release"
        ) from None
    source = Source(path, text, encoding, bom)
    # UTF-16 in a cookie or shift states: a file that cannot be written back is not touched.
    if "\0" in text or source.encode(text) != content:
        raise PatchError(f"{path}: is not plain text in {encoding}: get it again from its release")
    return source


def must_compile(path: str, content: bytes) -> None:
    """Check that the patched content is valid Python.

    Raises:
        PatchError: it is not, which is a bug of this patch.
    """
    try:
        with warnings.catch_warnings():
            # Invalid escape sequences in upstream's own text do not concern this check.
            warnings.simplefilter("ignore")
            ast.parse(content, path)
    except SyntaxError as error:
        raise PatchError(
            f"{path}: line {error.lineno} would not be Python after the patch ({error.msg}): "
            "please report this with the release's name"
        ) from None


def mark(source: Source, text: str, steps: frozenset[str]) -> str:
    """Return the text with a last line that names the steps and the folder of the original."""
    comment = "//" if source.path.endswith(".js") else "#"
    end = source.newline
    whole = text if text.endswith("\n") else text + end
    line = f"Patched by hearth kokoro-patch ({', '.join(ordered(steps))}); "
    return f"{whole}{comment} {line}the original is kept in .hearth-patch{end}"


def marked(content: bytes) -> frozenset[str] | None:
    """Return the steps in a file's mark, `None` for a file without a mark."""
    found = _MARK.search(content.decode("utf-8", errors="replace"))
    return frozenset(found[1].split(", ")) if found else None
