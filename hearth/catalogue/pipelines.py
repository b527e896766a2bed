"""Check the files of inventory/pipelines/ without running them: can upstream's server use them?

A file in `inventory/local/pipelines/` replaces one of the same name.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from hearth.catalogue.naming import SNAKE, Place, Problem, suggest
from hearth.catalogue.records import Catalogue
from hearth.catalogue.secret_rules import PUBLIC

FOLDER = "pipelines"
LOCK = Path("requirements", "pipelines.txt")
_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==(\S+)", re.MULTILINE)
# A line, and what is wrong there.
Fault = tuple[int, str]


def files(inventory: Path, folder: str = FOLDER) -> dict[str, Path]:
    """Return each name and file in a folder, sorted by name; local files win."""
    found = {path.stem: path for each in folders(inventory, folder) for path in each.glob("*.py")}
    return dict(sorted(found.items()))


def folders(inventory: Path, folder: str = FOLDER) -> list[Path]:
    """Return the inventory's folder of this name, and the one in `local`."""
    return [inventory / folder, inventory / "local" / folder]


def check(catalogue: Catalogue, inventory: Path) -> Iterator[Problem]:
    """Find all problems of pipelines, and the public default key in any file."""
    lock = _locked(inventory.parent / LOCK)
    owners: dict[str, str] = {}
    faults = [(path, (1, text)) for path, text in _unknown_files(inventory)]
    faults += _public_key(inventory)
    for path in files(inventory).values():
        tree, found = parsed(path)
        if tree:
            name, line = _name(tree, path)
            shown = _shown(inventory, path)
            found = [*_shape(tree), *_requirements(tree, lock)]
            found += ((line, text) for text in _clashes(catalogue, name, owners))
            owners.setdefault(name, shown)
        faults += ((path, fault) for fault in found)
    for path, (line, text) in faults:
        yield Problem(Place(_shown(inventory, path), line), text)


def _shown(inventory: Path, path: Path) -> str:
    return str(path.relative_to(inventory.parent))


def _unknown_files(inventory: Path) -> Iterator[tuple[Path, str]]:
    """Every file in the folder is read."""
    for path in (path for folder in folders(inventory) for path in folder.glob("*")):
        if path.name.startswith(".") or path.name == "__pycache__":
            continue
        if path.suffix != ".py" or not path.is_file():
            text = f"{path.name} is not a pipeline; only files NAME.py belong here, and valves "
            text += "into settings of the record pipelines in inventory/local/services.yml"
            yield path, text
        elif not SNAKE.fullmatch(path.stem):
            better = re.sub(r"[^a-z0-9]+", "_", path.stem.lower()).strip("_") or "name"
            yield path, f"{path.name} is not a snake_case name; write {better}.py"


def _public_key(inventory: Path) -> Iterator[tuple[Path, Fault]]:
    """No file contains the public default key."""
    text = (
        "this is upstream's public default key; leave it out, and pipelines_key will be generated"
    )
    for path in [*inventory.rglob("*.yml"), *files(inventory).values()]:
        if path.is_file() and path.name != "secrets.yml":
            for number, line in enumerate(path.read_bytes().splitlines(), 1):
                if any(key.encode() in line for key in PUBLIC):
                    yield path, (number, text)


def parsed(path: Path) -> tuple[ast.Module | None, list[Fault]]:
    """Return the tree of a Python file, or why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(path.read_bytes()), []
    except SyntaxError as error:
        text = f"this is not Python: {error.msg}; fix the line, or remove the file"
        return None, [(error.lineno or 1, text)]
    except (ValueError, RecursionError, MemoryError, OSError) as error:
        text = f"this is not Python: {str(error) or 'it nests too deeply'}; remove the file"
        return None, [(1, text)]


def _shape(tree: ast.Module) -> Iterator[Fault]:
    """Upstream's server requires a class Pipeline with a few methods."""
    found = _class(tree)
    if found is None:
        text = "class Pipeline is missing; write class Pipeline: with def pipe(self, user_message, "
        yield 1, text + "model_id, messages, body)"
        return
    types = [(value, line) for name, value, line in _constants(found) if name == "type"]
    for value, line in types:
        if value not in ("filter", "manifold"):
            text = f"Pipeline.type {value} is not valid; write filter or manifold, or leave it out"
            yield line, text
    if found.bases or (types and types[0][0] == "filter"):
        return
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    methods = {one.name: one for one in found.body if isinstance(one, functions)}
    if "pipe" not in methods:
        text = "class Pipeline has no method pipe; write def pipe(self, user_message, model_id, "
        yield found.lineno, text + "messages, body)"
    elif isinstance(methods["pipe"], ast.AsyncFunctionDef):
        text = "Pipeline.pipe is async, and upstream's server calls plain methods; write def pipe"
        yield methods["pipe"].lineno, text


def _class(tree: ast.Module) -> ast.ClassDef | None:
    classes = (one for one in tree.body if isinstance(one, ast.ClassDef))
    return next((one for one in classes if one.name == "Pipeline"), None)


def _constants(found: ast.ClassDef) -> Iterator[tuple[str, object, int]]:
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


def _name(tree: ast.Module, path: Path) -> tuple[str, int]:
    """Return the name that a chat offers, and the line that sets it."""
    found = _class(tree)
    ids = [
        (value, line)
        for key, value, line in (_constants(found) if found else ())
        if key == "id" and isinstance(value, str)
    ]
    return ids[-1] if ids else (path.stem, 1)


def _clashes(catalogue: Catalogue, name: str, owners: Mapping[str, str]) -> Iterator[str]:
    """A pipeline's name is unique among everything that a chat offers."""
    if name in owners:
        yield f"{name} is also {owners[name]}'s; write another id, or rename the file"
    for section in ("aliases", "models"):
        if name in catalogue.known(section):
            where = catalogue.at(section, name)
            yield f"{name} is also in {section} ({where}); write another id, or rename the file"


def _locked(lock: Path) -> dict[str, str]:
    # Imported late: it takes longer than reading a whole inventory.
    from packaging.utils import canonicalize_name

    text = lock.read_text(encoding="utf-8") if lock.is_file() else ""
    return {canonicalize_name(name): version for name, version in _PINNED.findall(text)}


def _requirements(tree: ast.Module, lock: Mapping[str, str]) -> Iterator[Fault]:
    """Required packages are in the lock, because nothing is installed at the start."""
    text = ast.get_docstring(tree, clean=False)
    if text is None:
        return
    for number, line in enumerate(text.split("\n"), tree.body[0].lineno):
        key, _, value = line.partition(":")
        if key.strip().lower() == "requirements":
            for item in filter(None, map(str.strip, value.split(","))):
                if reason := _refused(item, lock):
                    yield number, f"requirements {item} {reason}"


def _refused(item: str, lock: Mapping[str, str]) -> str:
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
