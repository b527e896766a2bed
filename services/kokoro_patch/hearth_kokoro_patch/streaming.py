"""Steps `sentences` and `yielding`: shorter segments, each sent before the next is synthesised."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from hearth_kokoro_patch.source import PatchError, Source
from hearth_kokoro_patch.syntax import IN_WORKER, add_import, is_asynchronous, iterated, speaks

ARGUMENT = "split_pattern"
LIBRARY_PATTERN = r"\n+"
PATTERN = r"(?<=[.!?])\s+"
_LITERAL = f'r"{PATTERN}"'
# text, voice, speed: a fourth one without a name would be the pattern.
_POSITIONAL = 3
_PAUSE = "await asyncio.sleep(0)"
_YIELD_LINE = m.SimpleStatementLine(body=[m.Expr(value=m.Yield())])


def split_by_sentence(source: Source, module: cst.Module) -> cst.Module:
    """Return the module whose pipeline splits text after `.`, `!` and `?`.

    Raises:
        PatchError: no loop over the pipeline, or one with an unknown argument.
    """
    cutter = _Cutter(source.path)
    changed = module.visit(cutter)
    if not cutter.found:
        raise PatchError(
            f"{source.path}: no loop `for ... in pipeline(text, ...)` was found, so this release "
            "is not known (step sentences)"
        )
    return changed


class _Cutter(cst.CSTTransformer):
    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.found = 0

    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> cst.For:
        call = iterated(updated_node)
        if not speaks(call):
            return updated_node
        self.found += 1
        call_with = self.with_pattern(cst.ensure_type(call, cst.Call))
        replaced = updated_node.deep_replace(call, call_with)
        return cst.ensure_type(replaced, cst.For)

    def with_pattern(self, call: cst.Call) -> cst.Call:
        """Return the call with our pattern among its arguments."""
        for number, argument in enumerate(call.args):
            if argument.star or (argument.keyword is None and number >= _POSITIONAL):
                raise self.unknown(argument)
            if argument.keyword is not None and argument.keyword.value == ARGUMENT:
                return call.with_deep_changes(argument, value=self.replaced(argument))
        return call.with_changes(args=_with(list(call.args)))

    def replaced(self, argument: cst.Arg) -> cst.BaseExpression:
        """Return our pattern in place of the library's own, or of ours."""
        value = argument.value
        pattern = value.evaluated_value if isinstance(value, cst.SimpleString) else None
        if pattern == PATTERN:
            return value
        if pattern == LIBRARY_PATTERN:
            return cst.SimpleString(_LITERAL)
        raise self.unknown(argument)

    def unknown(self, argument: cst.Arg) -> PatchError:
        shown = cst.Module(body=()).code_for_node(argument.with_changes(comma=_NO_COMMA))
        return PatchError(
            f"{self.path}: the pipeline is called with `{shown.strip()}`, where `{ARGUMENT}` "
            f"was expected to be absent or r'{LIBRARY_PATTERN}' (step sentences)"
        )


_NO_COMMA = cst.MaybeSentinel.DEFAULT


def _with(arguments: list[cst.Arg]) -> list[cst.Arg]:
    """Return the arguments with ours, formatted like its neighbours."""
    own = cst.parse_expression(f"f({ARGUMENT}={_LITERAL})")
    added = cst.ensure_type(own, cst.Call).args[0]
    last = arguments[-1]
    if last.keyword is not None and len(arguments) > 1:
        return [*arguments[:-1], added.with_changes(comma=arguments[-2].comma), last]
    before = last.with_changes(
        comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")),
        whitespace_after_arg=cst.SimpleWhitespace(""),
    )
    after = added.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    return [*arguments[:-1], before, after]


def yield_between_segments(source: Source, module: cst.Module) -> cst.Module:
    """Return the module with an `asyncio.sleep(0)` after each `yield` of an `async def`.

    Raises:
        PatchError: there is no such `yield`, or one that is not a statement of its own.
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
            f"{source.path}: each `yield` was expected alone in its line, and one is not, so "
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
        # Our own helper yields to the event loop by itself.
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
    """Return whether a block continues with our line, with or without a comment."""
    wanted = cst.ensure_type(cst.parse_statement(_PAUSE), cst.SimpleStatementLine).body[0]
    return bool(rest) and any(
        isinstance(statement, cst.SimpleStatementLine) and statement.body[0].deep_equals(wanted)
        for statement in rest
    )
