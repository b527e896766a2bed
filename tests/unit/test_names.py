"""No function of Hearth is named like its module: `from hearth.x import x` would be either."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def test_no_function_is_named_like_its_module() -> None:
    modules = [*ROOT.glob("hearth/**/*.py"), *ROOT.glob("services/*/hearth_*/**/*.py")]
    assert len(modules) > 200
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in modules
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, FUNCTIONS) and node.name == path.stem
    ]
    assert found == []
