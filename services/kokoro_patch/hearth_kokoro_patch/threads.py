"""Step `threads`: the model computes in one thread of its own, and the event loop stays free."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from hearth_kokoro_patch.source import PatchError, Source
from hearth_kokoro_patch.syntax import (
    CALL_WORKER,
    IN_WORKER,
    add_import,
    computes,
    is_asynchronous,
    iterated,
    waits,
)

_WORKER = "_HEARTH_WORKER"
_HELPERS = f'''


# One thread uses the model and the phonemizer, one call at a time, as the event loop did.
{_WORKER} = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hearth-kokoro")


async def {IN_WORKER}(results):
    """Compute each result in that thread, so that the event loop stays responsive."""
    loop, results, end = asyncio.get_running_loop(), iter(results), object()
    while (result := await loop.run_in_executor({_WORKER}, next, results, end)) is not end:
        yield result


async def {CALL_WORKER}(work, *args, **kwargs):
    """Run another call of the phonemizer in that thread; it does not support two at once."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor({_WORKER}, lambda: work(*args, **kwargs))
'''
# Upstream's calls of the pipeline's phonemizer between two segments.
_ASKS_PHONEMIZER = m.Call(
    func=m.Name(), args=[m.ZeroOrMore(), m.Arg(keyword=m.Name("g2p")), m.ZeroOrMore()]
)


def compute_in_thread(source: Source, module: cst.Module) -> cst.Module:
    """Return the engine whose loops over the pipeline run in a worker thread.

    Raises:
        PatchError: no loop over the pipeline in an `async def`.
    """
    mover = _Mover()
    changed = module.visit(mover)
    if not mover.loops:
        raise PatchError(
            f"{source.path}: no loop `for ... in pipeline(...)` in an `async def` was found, so "
            "this release is not known (step threads)"
        )
    if _has(changed, _WORKER):
        return changed
    for line in ("from concurrent.futures import ThreadPoolExecutor", "import asyncio"):
        changed = add_import(source, changed, line)
    return _with_helpers(changed)


def compute_in_engines_thread(source: Source, module: cst.Module) -> cst.Module:
    """Return the service whose own loops over the pipeline, if any, use the engine's thread.

    Raises:
        PatchError: it has such loops, and its import of the engine is unknown.
    """
    mover = _Mover()
    changed = module.visit(mover)
    if not mover.loops:
        return module
    borrower = _Borrower()
    changed = changed.visit(borrower)
    if not borrower.found:
        raise PatchError(
            f"{source.path}: `from ..inference.kokoro_v1 import KokoroV1` is missing, so this "
            "release is not known (step threads)"
        )
    return changed


class _Mover(cst.CSTTransformer):
    """Turns loops over the pipeline into `async for` loops over the worker thread."""

    def __init__(self) -> None:
        super().__init__()
        self.asynchronous: list[bool] = []
        self.loops = 0

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.asynchronous.append(is_asynchronous(node))

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        self.asynchronous.pop()
        return updated_node

    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> cst.For:
        if not self._inside() or not computes(iterated(updated_node)):
            return updated_node
        self.loops += 1
        if waits(updated_node):
            return updated_node
        requested = cst.Call(func=cst.Name(IN_WORKER), args=[cst.Arg(updated_node.iter)])
        return updated_node.with_changes(asynchronous=cst.Asynchronous(), iter=requested)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if not self._inside() or not m.matches(updated_node, _ASKS_PHONEMIZER):
            return updated_node
        if m.matches(updated_node, m.Call(func=m.Name(CALL_WORKER))):
            return updated_node
        work = cst.Arg(updated_node.func, comma=updated_node.args[0].comma)
        moved = updated_node.with_changes(
            func=cst.Name(CALL_WORKER), args=[work, *updated_node.args]
        )
        return cst.Await(moved)

    def _inside(self) -> bool:
        return bool(self.asynchronous) and self.asynchronous[-1]


class _Borrower(cst.CSTTransformer):
    """Adds our helper to the import of the engine."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def leave_ImportFrom(
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> cst.ImportFrom:
        where = m.ImportFrom(
            module=m.Attribute(value=m.Name("inference"), attr=m.Name("kokoro_v1"))
        )
        names = updated_node.names
        if not m.matches(updated_node, where) or isinstance(names, cst.ImportStar):
            return updated_node
        self.found = True
        if any(m.matches(name, m.ImportAlias(name=m.Name(IN_WORKER))) for name in names):
            return updated_node
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        added = cst.ImportAlias(name=cst.Name(IN_WORKER), comma=names[-1].comma)
        return updated_node.with_changes(
            names=[*names[:-1], names[-1].with_changes(comma=comma), added]
        )


def _has(module: cst.Module, name: str) -> bool:
    assigned = m.SimpleStatementLine(body=[m.Assign(targets=[m.AssignTarget(m.Name(name))])])
    return any(m.matches(statement, assigned) for statement in module.body)


def _with_helpers(module: cst.Module) -> cst.Module:
    """Return the module with our helpers before its first class or function."""
    # Comments above the first statement belong to the module's header and would be lost.
    helpers = cst.parse_module(f"pass{_HELPERS}").body[1:]
    body = list(module.body)
    # One of them contains the loops, so there is at least one.
    own = cst.ClassDef | cst.FunctionDef
    place = next(number for number, part in enumerate(body) if isinstance(part, own))
    return module.with_changes(body=[*body[:place], *helpers, *body[place:]])
