"""Shared by the three Python steps: parsing, imports, and finding the loops that synthesise."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from hearth_kokoro_patch.source import PatchError, Source

IN_WORKER = "_hearth_in_worker"
CALL_WORKER = "_hearth_call_worker"

_WRAPPED = m.Call(func=m.Name(IN_WORKER), args=[m.Arg()])


def speaks(node: cst.CSTNode) -> bool:
    """Return whether an expression calls the pipeline with a text, which the pipeline splits."""
    return isinstance(node, cst.Call) and _is_pipeline(node.func)


def computes(node: cst.CSTNode) -> bool:
    """Return whether an expression calls the pipeline so that it runs the model."""
    by_tokens = m.Call(func=m.Attribute(attr=m.Name("generate_from_tokens")))
    if m.matches(node, by_tokens):
        call = cst.ensure_type(node, cst.Call)
        return _is_pipeline(cst.ensure_type(call.func, cst.Attribute).value)
    return speaks(node)


def _is_pipeline(node: cst.CSTNode) -> bool:
    owner = m.Name("self") | m.Name("backend")
    made = m.Call(func=m.Attribute(value=owner, attr=m.Name("_get_pipeline")))
    kept = m.Attribute(value=owner, attr=m.Name("_pipeline"))
    return any(m.matches(node, form) for form in (m.Name("pipeline"), made, kept))


def parse(source: Source) -> cst.Module:
    """Parse Python so that it can be written back with every space and comment.

    Raises:
        PatchError: it is not Python, or could not be written back unchanged.
    """
    try:
        module = cst.parse_module(source.text)
    except cst.ParserSyntaxError as error:
        raise PatchError(
            f"{source.path}: line {error.raw_line} is not Python that can be read: get the file "
            "again from its release"
        ) from None
    if module.code != source.text:
        raise PatchError(
            f"{source.path}: cannot be written back as it was: get it again from its release"
        )
    return module


def iterated(loop: cst.For) -> cst.BaseExpression:
    """Return the iterable of a loop, without the call of the worker thread around it."""
    if m.matches(loop.iter, _WRAPPED):
        return cst.ensure_type(loop.iter, cst.Call).args[0].value
    return loop.iter


def waits(loop: cst.For) -> bool:
    """Return whether a loop already takes its results from the worker thread."""
    return m.matches(loop.iter, _WRAPPED)


def is_asynchronous(function: cst.FunctionDef) -> bool:
    """Return whether the function is an `async def`."""
    return function.asynchronous is not None


def has_import(module: cst.Module, line: str) -> bool:
    """Return whether a module has exactly this import at its top level."""
    wanted = _only(cst.parse_statement(line))
    return any(
        isinstance(statement, cst.SimpleStatementLine)
        and any(part.deep_equals(wanted) for part in statement.body)
        for statement in module.body
    )


def add_import(source: Source, module: cst.Module, line: str) -> cst.Module:
    """Return the module with this import before the first of its kind, unless it is there.

    Raises:
        PatchError: it has no import, so this release is unknown.
    """
    if has_import(module, line):
        return module
    body = list(module.body)
    added = cst.ensure_type(cst.parse_statement(line), cst.SimpleStatementLine)
    imports = [number for number, part in enumerate(body) if _is_import(part)]
    alike = [n for n in imports if type(_only(body[n])) is type(added.body[0])]
    if not imports:
        raise PatchError(
            f"{source.path}: no import was found after which `{line}` could be inserted"
        )
    place = (alike or imports)[0]
    first = cst.ensure_type(body[place], cst.SimpleStatementLine)
    # The empty line between the docstring and the imports stays above them all.
    body[place] = first.with_changes(leading_lines=())
    body.insert(place, added.with_changes(leading_lines=first.leading_lines))
    return module.with_changes(body=body)


def _only(statement: cst.CSTNode) -> cst.CSTNode:
    return cst.ensure_type(statement, cst.SimpleStatementLine).body[0]


def _is_import(statement: cst.CSTNode) -> bool:
    future = m.SimpleStatementLine(body=[m.ImportFrom(module=m.Name("__future__"))])
    ordinary = m.SimpleStatementLine(body=[m.Import() | m.ImportFrom()])
    # Imports from __future__ stay first.
    return m.matches(statement, ordinary) and not m.matches(statement, future)
