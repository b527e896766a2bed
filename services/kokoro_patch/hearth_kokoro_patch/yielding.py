"""Step `yielding`: after each piece the event loop gets its turn, and the piece leaves."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from hearth_kokoro_patch.errors import PatchError
from hearth_kokoro_patch.source import Source
from hearth_kokoro_patch.tree import IN_WORKER, add_import, is_asynchronous

_PAUSE = "await asyncio.sleep(0)"
_YIELD_LINE = m.SimpleStatementLine(body=[m.Expr(value=m.Yield())])


def yield_between_pieces(source: Source, module: cst.Module) -> cst.Module:
    """Return the module that waits for nothing, once, after each `yield` of an `async def`.

    Raises:
        PatchError: there is no such `yield`, or one that does not stand alone in its line.
    """
    pauses = _Pauses()
    changed = module.visit(pauses)
    if not pauses.lines:
        raise PatchError(
            f"{source.path}: no `yield` in an `async def` was found, so this release is not known "
            "(step yielding)"
        )
    if pauses.yields != pauses.lines:
        raise PatchError(
            f"{source.path}: each `yield` was looked for alone in its line, and one is not, so "
            "this release is not known (step yielding)"
        )
    return add_import(source, changed, "import asyncio")


class _Pauses(cst.CSTTransformer):
    def __init__(self) -> None:
        super().__init__()
        self.asynchronous: list[bool] = []
        self.yields = 0
        self.lines = 0

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        # Our own helper gives way by itself, each time it asks its thread.
        self.asynchronous.append(is_asynchronous(node) and node.name.value != IN_WORKER)

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        self.asynchronous.pop()
        return updated_node

    def visit_Yield(self, node: cst.Yield) -> None:
        self.yields += self._inside()

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        if not self._inside():
            return updated_node
        return updated_node.with_changes(body=self._paused(updated_node.body))

    def _inside(self) -> bool:
        return bool(self.asynchronous) and self.asynchronous[-1]

    def _paused(self, body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
        pause = cst.parse_statement(_PAUSE)
        result: list[cst.BaseStatement] = []
        for number, statement in enumerate(body):
            result.append(statement)
            if not m.matches(statement, _YIELD_LINE):
                continue
            self.lines += 1
            if not _is_pause(body[number + 1 : number + 2]):
                result.append(pause)
        return result


def _is_pause(rest: Sequence[cst.BaseStatement]) -> bool:
    """Return whether a block goes on with our line, whatever comment stands beside it."""
    wanted = cst.ensure_type(cst.parse_statement(_PAUSE), cst.SimpleStatementLine).body[0]
    return bool(rest) and any(
        isinstance(statement, cst.SimpleStatementLine) and statement.body[0].deep_equals(wanted)
        for statement in rest
    )
