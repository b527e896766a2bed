"""Check the files of inventory/pipelines/ without running them: can upstream's server use them?

A file in `inventory/local/pipelines/` replaces one of the same name.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

from hearth.catalogue.naming import SNAKE, Problem, suggest
from hearth.catalogue.records import Catalogue
from hearth.catalogue.secret_rules import PUBLIC

FOLDER = "pipelines"
LOCK = Path("requirements", "pipelines.txt")
_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==(\S+)", re.MULTILINE)
_TYPES = ("filter", "manifold")


def files(inventory: Path) -> dict[str, Path]:
    """Return each pipeline's name and file, sorted by name; local files win."""
    found: dict[str, Path] = {}
    for folder in (inventory / FOLDER, inventory / "local" / FOLDER):
        found |= {path.stem: path for path in folder.glob("*.py")}
    return dict(sorted(found.items()))


def check(catalogue: Catalogue, inventory: Path) -> list[Problem]:
    """Find all problems of pipelines, and the public default key in any file."""
    problems = [*_unknown_files(inventory), *_public_key(inventory)]
    lock = _locked(inventory.parent / LOCK)
    owners: dict[str, str] = {}
    for path in files(inventory).values():
        shown = _shown(inventory, path)
        tree = _parsed(path, shown)
        if isinstance(tree, Problem):
            problems.append(tree)
            continue
        problems += _shape(tree, shown)
        problems += _requirements(tree, shown, lock)
        problems += _name(catalogue, tree, path, shown, owners)
    return problems


def _shown(inventory: Path, path: Path) -> str:
    return str(path.relative_to(inventory.parent))


def _unknown_files(inventory: Path) -> Iterator[Problem]:
    """Every file in the folder is read."""
    for folder in (inventory / FOLDER, inventory / "local" / FOLDER):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.name.startswith(".") or path.name == "__pycache__":
                continue
            if path.suffix != ".py" or not path.is_file():
                text = f"{path.name} is not a pipeline; only files NAME.py belong here, and valves "
                text += "into settings of the record pipelines in inventory/local/services.yml"
                yield Problem(_shown(inventory, path), 1, text)
            elif not SNAKE.fullmatch(path.stem):
                better = re.sub(r"[^a-z0-9]+", "_", path.stem.lower()).strip("_") or "name"
                text = f"{path.name} is not a snake_case name; write {better}.py"
                yield Problem(_shown(inventory, path), 1, text)


def _public_key(inventory: Path) -> Iterator[Problem]:
    """No file contains the public default key."""
    kept = [*inventory.rglob("*.yml"), *files(inventory).values()]
    for path in sorted(kept):
        if not path.is_file() or path.name == "secrets.yml":
            continue
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            if any(key.encode() in line for key in PUBLIC):
                text = (
                    "this is upstream's public default key; leave it out, and pipelines_key will "
                )
                text += "be generated"
                yield Problem(_shown(inventory, path), number, text)


def _parsed(path: Path, shown: str) -> ast.Module | Problem:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(path.read_bytes())
    except SyntaxError as error:
        text = f"this is not Python: {error.msg}; fix the line, or remove the file"
        return Problem(shown, error.lineno or 1, text)
    except (ValueError, RecursionError, MemoryError, OSError) as error:
        text = f"this is not Python: {str(error) or 'it nests too deeply'}; remove the file"
        return Problem(shown, 1, text)


def _shape(tree: ast.Module, shown: str) -> Iterator[Problem]:
    """Upstream's server requires a class Pipeline with a few methods."""
    found = _class(tree)
    if found is None:
        text = "class Pipeline is missing; write class Pipeline: with def pipe(self, user_message, "
        yield Problem(shown, 1, text + "model_id, messages, body)")
        return
    methods = {one.name: one for one in found.body if isinstance(one, _FUNCTIONS)}
    kind = next((value for name, value, _ in _set(found) if name == "type"), None)
    for name, value, line in _set(found):
        if name == "type" and value not in _TYPES:
            text = f"Pipeline.type {value} is not valid; write filter or manifold, or leave it out"
            yield Problem(shown, line, text)
    if kind == "filter" or found.bases:
        return
    if "pipe" not in methods:
        text = "class Pipeline has no method pipe; write def pipe(self, user_message, model_id, "
        yield Problem(shown, found.lineno, text + "messages, body)")
    elif isinstance(methods["pipe"], ast.AsyncFunctionDef):
        text = "Pipeline.pipe is async, and upstream's server calls plain methods; write def pipe"
        yield Problem(shown, methods["pipe"].lineno, text)


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _class(tree: ast.Module) -> ast.ClassDef | None:
    classes = (one for one in tree.body if isinstance(one, ast.ClassDef))
    return next((one for one in classes if one.name == "Pipeline"), None)


def _set(found: ast.ClassDef) -> Iterator[tuple[str, object, int]]:
    """Yield each constant that the class or its `__init__` sets: name, value, line."""
    for node in ast.walk(found):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
            continue
        for target in node.targets:
            match target:
                case ast.Attribute(value=ast.Name(id="self"), attr=name):
                    yield name, node.value.value, node.lineno
                case ast.Name(id=name) if node in found.body:
                    yield name, node.value.value, node.lineno


def _name(
    catalogue: Catalogue, tree: ast.Module, path: Path, shown: str, owners: dict[str, str]
) -> Iterator[Problem]:
    """A pipeline's name is unique among everything that a chat offers."""
    name, line = path.stem, 1
    found = _class(tree)
    for key, value, place in _set(found) if found else ():
        if key == "id" and isinstance(value, str):
            name, line = value, place
    if name in owners:
        text = f"{name} is also {owners[name]}'s; write another id, or rename the file"
        yield Problem(shown, line, text)
    owners.setdefault(name, shown)
    for section in ("aliases", "models"):
        if name in catalogue.known(section):
            where = catalogue.at(section, name)
            text = f"{name} is also in {section} ({where}); write another id, or rename the file"
            yield Problem(shown, line, text)


def _locked(lock: Path) -> dict[str, str]:
    # Imported late: it takes longer than reading a whole inventory.
    from packaging.utils import canonicalize_name

    text = lock.read_text(encoding="utf-8") if lock.is_file() else ""
    return {canonicalize_name(name): version for name, version in _PINNED.findall(text)}


def _requirements(tree: ast.Module, shown: str, lock: dict[str, str]) -> Iterator[Problem]:
    """Required packages are in the lock, because nothing is installed at the start."""
    first = tree.body[0] if tree.body else None
    text = ast.get_docstring(tree, clean=False)
    if text is None or first is None:
        return
    for number, line in enumerate(text.split("\n"), first.lineno):
        key, colon, value = line.partition(":")
        if not colon or key.strip().lower() != "requirements":
            continue
        for item in filter(None, (one.strip() for one in value.split(","))):
            if reason := _refused(item, lock):
                yield Problem(shown, number, f"requirements {item} {reason}")


def _refused(item: str, lock: dict[str, str]) -> str:
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    add = f"add it to {LOCK.with_suffix('.in')} and lock again"
    try:
        wanted = Requirement(item)
    except InvalidRequirement:
        return "is not a valid requirement; write a name and a version, e.g. requests>=2"
    version = lock.get(canonicalize_name(wanted.name))
    if version is None or wanted.url:
        return f"is not in {LOCK}; {suggest(wanted.name, lock) if lock else add}, or {add}"
    if not wanted.specifier.contains(version, prereleases=True):
        return f"is not what {LOCK} has, {version}; write that, or {add}"
    return ""
