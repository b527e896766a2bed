"""Say in the inventory that a service is gone, so that no later run makes it again."""

import shutil
import tempfile
from pathlib import Path

from hearth.catalogue import CatalogueError, load
from hearth.files import write_atomic
from hearth.remove import RemoveError
from hearth.yaml_edit import with_value

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
    try:
        new = with_value(old, ("services", service, "present"), False)
    except ValueError:
        raise RemoveError(
            f"{path}: Hearth cannot edit this file safely: write `{_LINE}` into the record "
            f"{service} there, then run this again"
        ) from None
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
