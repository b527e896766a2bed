"""Which step changes which file, in which order."""

from __future__ import annotations

from collections.abc import Iterable

from hearth_kokoro_patch import syntax
from hearth_kokoro_patch.player import fall_back
from hearth_kokoro_patch.sentences import split_by_sentence
from hearth_kokoro_patch.source import Source, mark, marked, must_compile, read
from hearth_kokoro_patch.threads import compute_elsewhere, compute_in_thread
from hearth_kokoro_patch.tree import parse
from hearth_kokoro_patch.yielding import yield_between_pieces

ENGINE = "api/src/inference/kokoro_v1.py"
SERVICE = "api/src/services/tts_service.py"
PLAYER = "web/src/services/AudioService.js"
FILES = {
    ENGINE: frozenset({"sentences", "yielding", "threads"}),
    SERVICE: frozenset({"yielding", "threads"}),
    PLAYER: frozenset({"player"}),
}


def edited(name: str, original: bytes, steps: frozenset[str]) -> bytes:
    """Return a file with these steps; the same bytes where it has them already.

    Raises:
        PatchError: its form is not known.
    """
    if not steps or marked(original):
        return original
    source = read(name, original)
    text = fall_back(source) if name == PLAYER else _python(source, steps)
    if text == source.text:
        return original
    content = source.encode(mark(source, text, steps))
    if name != PLAYER:
        must_compile(name, content)
    return content


def _python(source: Source, steps: frozenset[str]) -> str:
    module = parse(source)
    if "sentences" in steps:
        module = split_by_sentence(source, module)
    if "yielding" in steps:
        module = yield_between_pieces(source, module)
    if "threads" in steps:
        move = compute_in_thread if source.path == ENGINE else compute_elsewhere
        module = move(source, module)
    return module.code


def unchecked(contents: Iterable[tuple[str, bytes]]) -> tuple[str, ...]:
    """Let node read every JavaScript file, and return those that nobody could read here.

    Raises:
        PatchError: node refuses one.
    """
    return tuple(
        name
        for name, content in contents
        if name.endswith(".js") and not syntax.node_reads(name, content)
    )
