"""A pipeline that upstream's server could not use is refused in one line, without running it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hearth.catalogue import CatalogueError, load
from hearth.catalogue.pipelines import files
from hearth.catalogue.secret_rules import PUBLIC

ROOT = Path(__file__).parents[3]
BASE = ROOT / "tests/fixtures/catalogue/base"
(PUBLIC_KEY,) = PUBLIC
LOCK = "requests==2.34.2 \\\n    --hash=sha256:0\npython-multipart==0.0.33\n"
PIPE = "    def pipe(self, **request):\n        return 'an answer'\n"
GOOD = f"class Pipeline:\n{PIPE}"
SAY = "write def pipe(self, user_message, model_id, messages, body)"
ADD = "add it to requirements/pipelines.in and lock again"

REFUSED = {
    "syntax": (
        f"{GOOD}x = (\n",
        "4: this is not Python: '(' was never closed; fix the line, or remove the file",
    ),
    "no_class": (
        "def pipe(): ...\n",
        "1: class Pipeline is missing; write class Pipeline: with def pipe(self, user_message, "
        "model_id, messages, body)",
    ),
    "no_pipe": ("\nclass Pipeline:\n    x = 1\n", f"2: class Pipeline has no method pipe; {SAY}"),
    "late": (
        "class Pipeline:\n    async def pipe(self): ...\n",
        "2: Pipeline.pipe is async, and upstream's server calls plain methods; write def pipe",
    ),
    "hidden": (
        f"class Pipeline:\n    def __init__(self):\n        self.type = 'pipe'\n{PIPE}",
        "3: Pipeline.type pipe is not valid; write filter or manifold, or leave it out",
    ),
    "unlocked": (
        f'"""\ntitle: T\nrequirements: requests, request>=2\n"""\n{GOOD}',
        f"3: requirements request>=2 is not in requirements/pipelines.txt; did you mean requests?, "
        f"or {ADD}",
    ),
    "newer": (
        f'"""requirements: requests>=3"""\n{GOOD}',
        f"1: requirements requests>=3 is not what requirements/pipelines.txt has, 2.34.2; write "
        f"that, or {ADD}",
    ),
    "address": (
        f'"""\nRequirements: git+https://example.org/x\n"""\n{GOOD}',
        "2: requirements git+https://example.org/x is not a valid requirement; write a name "
        "and a version, e.g. requests>=2",
    ),
    "an_alias": (
        f"class Pipeline:\n    id = 'fast'\n{PIPE}",
        "2: fast is also in aliases (inventory/aliases.yml:3); write another id, or rename the "
        "file",
    ),
    "public": (
        f"KEY = {PUBLIC_KEY!r}\n{GOOD}",
        "1: this is upstream's public default key; leave it out, and pipelines_key will be "
        "generated",
    ),
}


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """An inventory with a lock beside it, as a checkout has them."""
    folder = tmp_path / "inventory"
    shutil.copytree(BASE, folder)
    (folder / "pipelines").mkdir()
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements/pipelines.txt").write_text(LOCK)
    return folder


def refused(inventory: Path) -> list[str]:
    """Return what is wrong with it, line by line."""
    with pytest.raises(CatalogueError) as caught:
        load(inventory)
    return str(caught.value).splitlines()


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_pipeline_is_one_line(inventory: Path, name: str) -> None:
    text, message = REFUSED[name]
    (inventory / f"pipelines/{name}.py").write_text(text)
    assert refused(inventory) == [f"inventory/pipelines/{name}.py:{message}"]


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f'"""\ntitle: T\nrequirements: requests>=2, Python_Multipart\n"""\n{GOOD}',
        "class Pipeline:\n    def __init__(self):\n        self.type = 'filter'\n",
        f"class Pipeline:\n    type = 'manifold'\n{PIPE}",
        # Attributes of other objects are not checked.
        f"class Pipeline:\n    def __init__(self, it):\n        it.type = id = 'fast'\n{PIPE}",
        "from base import Pipe\nclass Pipeline(Pipe):\n    pass\n",
        f'"""Say what you like: here."""\nPATTERN = "\\d"\n{GOOD}',
    ],
)
def test_a_good_one_is_taken(inventory: Path, text: str) -> None:
    (inventory / "pipelines/good.py").write_text(text)
    load(inventory)


def test_it_is_never_run(inventory: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (inventory / "pipelines/good.py").write_text(f"open({str(ran)!r}, 'w')\n{GOOD}")
    load(inventory)
    assert not ran.exists()


def test_local_ones_lie_over_the_others(inventory: Path) -> None:
    local = inventory / "local/pipelines"
    local.mkdir(parents=True)
    (inventory / "pipelines/twice.py").write_text("class Pipeline\n")
    (local / "twice.py").write_text(GOOD)
    (local / "own.py").write_text(GOOD)
    load(inventory)
    assert files(inventory) == {"own": local / "own.py", "twice": local / "twice.py"}


def test_two_cannot_be_called_the_same(inventory: Path) -> None:
    (inventory / "pipelines/a.py").write_text(f"class Pipeline:\n    id = 'b'\n{PIPE}")
    (inventory / "pipelines/b.py").write_text(GOOD)
    message = "b is also inventory/pipelines/a.py's; write another id, or rename the file"
    assert refused(inventory) == [f"inventory/pipelines/b.py:1: {message}"]


def test_nothing_lies_there_unread(inventory: Path) -> None:
    folder = inventory / "pipelines"
    (folder / "good").mkdir()
    (folder / "notes.txt").write_text("x")
    (folder / "My-Own.py").write_text(GOOD)
    (folder / "__pycache__").mkdir()
    (folder / ".swp").write_text("x")
    where = "only files NAME.py belong here, and valves into settings of the record pipelines in "
    where += "inventory/local/services.yml"
    assert refused(inventory) == [
        "inventory/pipelines/My-Own.py:1: My-Own.py is not a snake_case name; write my_own.py",
        f"inventory/pipelines/good:1: good is not a pipeline; {where}",
        f"inventory/pipelines/notes.txt:1: notes.txt is not a pipeline; {where}",
    ]


def test_the_public_key_is_found_wherever_it_is_written(inventory: Path) -> None:
    settings = inventory / "local/services.yml"
    settings.parent.mkdir(exist_ok=True)
    values = f"{{OPENAI_API_KEYS: '{PUBLIC_KEY}'}}"
    text = f"services:\n  open_webui:\n    settings: {{open_webui_settings: {values}}}\n"
    settings.write_text(text)
    found = [line for line in refused(inventory) if "public" in line]
    assert found[0].startswith("inventory/local/services.yml:3: this is upstream's public")


def test_ours_are_good_and_ask_for_nothing_that_is_not_locked() -> None:
    assert "second_opinion" in files(ROOT / "inventory")
    load(ROOT / "inventory")
