"""Say in the inventory that a service is gone, so that no later run makes it again."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from hearth.catalogue import CatalogueError, load
from hearth.files import write_atomic
from hearth.remove import RemoveError
from hearth.sources.yaml_edit import edited

FILE = Path("local/services.yml")
_LINE = "present: false"


def note_absent(inventory: Path, service: str) -> None:
    """Write `present: false` into the service's own settings; a house it does not fit stays.

    Raises:
        RemoveError: the file cannot be edited safely, or the house would not be one without the
            service; the inventory is as it was.
    """
    path = inventory / FILE
    old = path.read_text(encoding="utf-8") if path.exists() else "---\n"
    new = without(old, service)
    if new is None:
        raise RemoveError(
            f"{path}: cannot be edited by Hearth: write `{_LINE}` into the record {service} there, "
            "then say this again"
        )
    _try(inventory, new)
    path.parent.mkdir(exist_ok=True)
    write_atomic(path, new.encode())


def _try(inventory: Path, new: str) -> None:
    """Read a copy of the inventory with the new text, so that a refusal changes nothing."""
    with tempfile.TemporaryDirectory(prefix="hearth-") as folder:
        copy = Path(folder) / "inventory"
        shutil.copytree(inventory, copy, ignore=shutil.ignore_patterns("secrets.yml", ".*"))
        (copy / FILE).parent.mkdir(exist_ok=True)
        (copy / FILE).write_text(new, encoding="utf-8")
        try:
            load(copy)
        except CatalogueError as error:
            said = "\n".join(str(problem).replace(f"{copy}/", "") for problem in error.problems)
            raise RemoveError(f"{said}\nnothing was changed") from None


def without(text: str, service: str) -> str | None:
    """Return the text of a services.yml that says so; None when that cannot be done safely."""
    wanted = yaml.safe_load(text) or {}
    records = wanted["services"] = wanted.get("services") or {}
    records[service] = {**(records.get(service) or {}), "present": False}
    for new in _tries(text, service):
        try:
            # People write YAML in many ways: only a text that says just this one thing more is it.
            if yaml.safe_load(new) == wanted:
                return new.rstrip("\n") + "\n"
        except (yaml.YAMLError, AttributeError, ValueError):
            continue
    return None


def _tries(text: str, service: str) -> Iterator[str]:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    record = _child(_child(root, "services"), service)
    if not isinstance(record, yaml.MappingNode) or not record.value:
        # Nothing is said about it here yet.
        value: dict[str, str] = {"present": False}  # type: ignore[dict-item]
        yield from _quietly(text, service, value)
        return
    present = _child(record, "present")
    if present is not None:
        yield text[: present.start_mark.index] + "false" + text[present.end_mark.index :]
    first = record.value[0][0].start_mark
    between = ", " if record.flow_style else "\n" + " " * first.column
    yield text[: first.index] + _LINE + between + text[first.index :]


def _quietly(text: str, service: str, value: dict[str, str]) -> Iterator[str]:
    try:
        yield edited(text, "services", service, value)
    except (yaml.YAMLError, ValueError, AttributeError):
        return


def _child(node: yaml.Node | None, name: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((content for key, content in pairs if key.value == name), None)
