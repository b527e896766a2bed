"""A change of `inventory/local`: what it may contain, and what would follow from it.

The proposed files are laid over a copy of the inventory; the real one is only read.
"""

import contextlib
import difflib
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hearth.approvals import ApprovalError, rights
from hearth.approvals.actions import Change
from hearth.approvals.arguments import NewFiles
from hearth.approvals.characters import hidden
from hearth.approvals.proposal import Section
from hearth.approvals.taint import known_words
from hearth.catalogue import Catalogue, CatalogueError
from hearth.paths import HOUSE_FILE
from hearth.project import Project

LOCAL = "local"
SECRETS = "secrets.yml"
_SECTION_CHARACTERS = 48 * 1024
# What a run reads of the project, besides the inventory.
_CODE = ("ansible", "hearth", "requirements", "roles", "services", "scripts")
_CODE_FILES = ("site.yml", "ansible.cfg")
_LINKED = (".hearth", "requirements", "roles")


@dataclass(frozen=True, slots=True)
class Preview:
    """What `site.yml --check --diff` reports: how many tasks would change something, and what.

    `tests` are the smoke tests that decide; none where all of them do.
    """

    changed: int
    lines: str
    diff: str
    tests: Sequence[str] = ()


def plan(
    project: Project,
    arguments: NewFiles,
    preview: Callable[[Project, Project, Sequence[str]], Preview],
) -> Change:
    """Return what these files would change in the house.

    `preview` runs the playbook of the first project in check mode with the inventory of the second,
    and finds the smoke tests with these words in their names.

    Raises:
        ApprovalError: the files may not be proposed, are not valid, or change nothing.
    """
    _refuse_hidden(arguments)
    new = arguments.texts
    old = {name: _text(project, name) for name in new}
    if old == new:
        raise ApprovalError("these files are in inventory/local already: nothing would change")
    # Before anything is looked at: what changes meanwhile makes the proposal void.
    depends = base(project)
    with overlaid(project, new) as other:
        catalogues = _catalogue(project, ""), _catalogue(other, "the proposed ")
        rights.refuse(*catalogues)
        try:
            houses = project.house(), other.house()
        except CatalogueError as error:
            raise ApprovalError(f"the proposed inventory is not valid: {error}") from error
        shown = rights.lines(*catalogues, *houses)
        found = preview(project, other, arguments.checks)
    sections = _sections(arguments, old, new, shown, found)
    added = {f"files.{name}": _added(old[name], new[name]) for name in new}
    words = known_words([_read(path) for path in _files(project.inventory)])
    names = ", ".join(sorted(new))
    summary = f"change {names} in inventory/local; {found.changed} tasks would change something"
    return Change(summary, sections, depends, {**added, "why": arguments.why}, words)


def base(project: Project) -> dict[str, str]:
    """Return digests of the inventory, the project's code, and the house as last converged."""
    code = [path for folder in _CODE for path in (project.root / folder).rglob("*")]
    code += [project.root / name for name in _CODE_FILES]
    return {
        "inventory": _digest(project.inventory, _files(project.inventory)),
        "code of Hearth": _digest(
            project.root, [path for path in code if "__pycache__" not in path.parts]
        ),
        "house as last converged": _digest(HOUSE_FILE.parent, [HOUSE_FILE]),
    }


def _digest(root: Path, paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in paths if path.is_file()):
        name = str(path.relative_to(root)).encode()
        content = hashlib.sha256(path.read_bytes()).hexdigest().encode()
        digest.update(b"%d %s %s\n" % (len(name), name, content))
    return digest.hexdigest()


def _files(inventory: Path) -> list[Path]:
    """Return the files that describe the house; the secrets are encrypted, and not among them."""
    return [
        path
        for path in sorted(inventory.rglob("*"))
        if path.is_file() and path.name != SECRETS and "__pycache__" not in path.parts
    ]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def target(project: Project, name: str) -> Path:
    """Return the file of this name in inventory/local; one that leads elsewhere is refused."""
    path = project.inventory / LOCAL / name
    if path.is_symlink():
        raise ApprovalError(f"inventory/local/{name} is a link: change the file that it names")
    return path


def _text(project: Project, name: str) -> str:
    path = target(project, name)
    return _read(path) if path.exists() else ""


def _refuse_hidden(arguments: NewFiles) -> None:
    for name, text in {"why": arguments.why, **arguments.texts}.items():
        if problem := next(hidden(text), None):
            raise ApprovalError(f"{name}: {problem}: a person could not see it")


@contextlib.contextmanager
def overlaid(project: Project, files: Mapping[str, str]) -> Iterator[Project]:
    """Give a copy of the project's inventory with these files in `local`; it is removed then."""
    state = project.root / ".hearth"
    state.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="proposal-", dir=state) as folder:
        root = Path(folder)
        shutil.copytree(
            project.inventory,
            root / "inventory",
            ignore=shutil.ignore_patterns(SECRETS, "__pycache__"),
        )
        if (secrets := project.inventory / SECRETS).exists():
            (root / "inventory" / SECRETS).symlink_to(secrets)
        for name in _LINKED:
            (root / name).symlink_to(project.root / name)
        local = root / "inventory" / LOCAL
        local.mkdir(exist_ok=True)
        for name, text in files.items():
            (local / name).write_text(text, encoding="utf-8")
        yield Project(root)


def _catalogue(project: Project, whose: str) -> Catalogue:
    try:
        return project.catalogue()
    except CatalogueError as error:
        raise ApprovalError(f"{whose or 'the '}inventory is not valid: {error}") from error


def _sections(
    arguments: NewFiles,
    old: Mapping[str, str],
    new: Mapping[str, str],
    shown: list[str],
    found: Preview,
) -> tuple[Section, ...]:
    decides = "the smoke tests about " + ", ".join(arguments.checks)
    end = (
        f"The files are written, `hearth check` and the playbook run, and then "
        f"{decides if arguments.checks else 'all smoke tests'} decide. If anything is red, the "
        "old files are put back and the playbook runs again."
    )
    return (
        Section("Why, in the agent's words", arguments.why, author="agent"),
        *([Section("Note", "\n".join(shown), "warning")] if shown else []),
        *(
            Section(f"inventory/local/{name}", _diff(name, old[name], new[name]), "diff", "agent")
            for name in sorted(new)
        ),
        Section("What would change in the house", _cut(found.lines)),
        *([Section("Files in the house", _cut(found.diff), "diff")] if found.diff else []),
        Section("What will be done", end),
        *([Section("Smoke tests that decide", _cut("\n".join(found.tests)))] * bool(found.tests)),
    )


def _diff(name: str, old: str, new: str) -> str:
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"{name} now", f"{name} proposed", lineterm=""
    )
    # Whole: what a person does not see, nobody approved.
    return "\n".join(lines)


def _added(old: str, new: str) -> str:
    lines = difflib.ndiff(old.splitlines(), new.splitlines())
    return "\n".join(line[2:] for line in lines if line.startswith("+ "))


def _cut(text: str) -> str:
    if len(text) <= _SECTION_CHARACTERS:
        return text
    left = len(text) - _SECTION_CHARACTERS
    return f"{text[:_SECTION_CHARACTERS]}\n… {left} more characters are not shown"
