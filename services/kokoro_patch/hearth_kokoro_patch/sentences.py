"""Step `sentences`: the pipeline cuts its text after each sentence, not only at line ends."""

from __future__ import annotations

import libcst as cst

from hearth_kokoro_patch.errors import PatchError
from hearth_kokoro_patch.source import Source
from hearth_kokoro_patch.tree import iterated, speaks

ARGUMENT = "split_pattern"
LIBRARY_PATTERN = r"\n+"
PATTERN = r"(?<=[.!?])\s+"
_LITERAL = f'r"{PATTERN}"'
# text, voice, speed: a fourth one without a name would be the pattern.
_POSITIONAL = 3


def split_by_sentence(source: Source, module: cst.Module) -> cst.Module:
    """Return the module whose pipeline is told to cut after `.`, `!` and `?`.

    Raises:
        PatchError: no loop over the pipeline, or one that is told something unknown.
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
        told = self.told(cst.ensure_type(call, cst.Call))
        replaced = updated_node.deep_replace(call, told)
        return cst.ensure_type(replaced, cst.For)

    def told(self, call: cst.Call) -> cst.Call:
        """Return the call with our pattern among its arguments."""
        for number, argument in enumerate(call.args):
            if argument.star or (argument.keyword is None and number >= _POSITIONAL):
                raise self.unknown(argument)
            if argument.keyword is not None and argument.keyword.value == ARGUMENT:
                return call.with_deep_changes(argument, value=self.replaced(argument))
        return call.with_changes(args=_with(list(call.args)))

    def replaced(self, argument: cst.Arg) -> cst.BaseExpression:
        """Return the pattern for one that is there: the library's own, or already ours."""
        value = argument.value
        said = value.evaluated_value if isinstance(value, cst.SimpleString) else None
        if said == PATTERN:
            return value
        if said == LIBRARY_PATTERN:
            return cst.SimpleString(_LITERAL)
        raise self.unknown(argument)

    def unknown(self, argument: cst.Arg) -> PatchError:
        shown = cst.Module(body=()).code_for_node(argument.with_changes(comma=_NO_COMMA))
        return PatchError(
            f"{self.path}: the pipeline is called with `{shown.strip()}`, where `{ARGUMENT}` "
            f"was looked for as nothing or r'{LIBRARY_PATTERN}' (step sentences)"
        )


_NO_COMMA = cst.MaybeSentinel.DEFAULT


def _with(arguments: list[cst.Arg]) -> list[cst.Arg]:
    """Return the arguments and our own, laid out as its neighbours are."""
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
