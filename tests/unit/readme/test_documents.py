"""The documents agree with the catalogue and the commands, and what they show can be run."""

import re
from pathlib import Path

import pytest
import yaml

from hearth.catalogue import derive, load, schema
from hearth.catalogue.records import FILES
from tests import documents, role_data
from tests.documents import Block, DocumentError, blocks

ROOT = Path(__file__).parents[3]
TOP = ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")
PAGES = [*(ROOT / f"{name}.md" for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]
SETTINGS = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
FILE_OF = {name: name for name in FILES} | {
    "sources": "sources.lock",
    "mirrors": "sources.lock",
    "parts": "services",
}
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
ANCHOR = re.compile(r"\]\(([^)#:]*)#([^)]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
READMES = [
    path for top in ("roles", "services", "tests") for path in (ROOT / top).glob("*/README.md")
]


def test_generated_parts_are_up_to_date() -> None:
    stale = [path.name for path in documents.stale()]
    assert not stale, "run `python -m tests.documents`"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_block_is_marked_as_run_or_not(page: Path) -> None:
    for block in blocks(page.read_text()):
        assert block.lab or len(block.reason) > 10, f"{page.name}:{block.line}: which reason?"


@pytest.mark.parametrize("page", [*PAGES, *READMES], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_have_a_target(page: Path) -> None:
    gone = [to for to in LINK.findall(page.read_text()) if not (page.parent / to).exists()]
    assert not gone


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and Forgejo make them."""
    headings = (re.sub(r"[^\w\- ]", "", text.lower()) for text in HEADING.findall(page.read_text()))
    return {heading.replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, *READMES], ids=lambda path: str(path.relative_to(ROOT)))
def test_anchors_name_a_heading(page: Path) -> None:
    named = [
        (page.parent / to if to else page, name) for to, name in ANCHOR.findall(page.read_text())
    ]
    gone = [f"{to}#{name}" for to, name in named if name not in anchors(to)]
    assert not gone


def test_readme_shows_commands_that_the_lab_runs() -> None:
    assert sum(block.lab for block in blocks((ROOT / "README.md").read_text())) >= 3


def test_blocks_are_read_with_their_line_and_marker() -> None:
    text = (
        "<!-- run: lab -->\n```sh\none\ntwo\n```\n\n```yaml\nno: command\n```\n"
        "- item\n\n  <!-- run: no, it takes all night -->\n  ```sh\n  three\n  ```\n"
    )
    assert blocks(text) == [
        Block(2, True, "", "one\ntwo"),
        Block(13, False, "it takes all night", "three"),
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("words\n```sh\nls\n```\n", "line 2: write <!-- run: lab --> or"),
        ("```sh\nls\n```\n", "line 1: write <!-- run: lab --> or"),
        ("<!-- run: no -->\n```sh\nls\n```\n", "line 2: write <!-- run"),
        ("<!-- run: maybe -->\n```sh\nls\n```\n", "line 2: write <!-- run"),
        ("<!-- run: lab -->\n```sh\nls\n", "line 2: this block is never closed"),
    ],
)
def test_an_unmarked_block_is_rejected(text: str, wanted: str) -> None:
    with pytest.raises(DocumentError, match=re.escape(wanted)):
        blocks(text)


def test_a_table_without_its_markers_is_rejected() -> None:
    with pytest.raises(DocumentError, match="services: generated"):
        documents.rewrite("no table here", {"services": "| a |"})


def test_tables_hold_every_service_and_alias(tmp_path: Path) -> None:
    house = documents.shipped_house()
    services, models = documents.service_table(house), documents.model_table(house)
    assert all(f"**{name}**" in services for name in (*house.services, *house.parts))
    assert all(f"`{name}`" in models for name in house.aliases)
    # The cloud's models are shown in their places, not left out for want of a key.
    assert "nemotron-120b (cloud), gpt-oss-120b (cloud), qwen3.5 |" in models


def test_own_settings_do_not_reach_the_readme(tmp_path: Path) -> None:
    for path in (ROOT / "inventory").glob("*.yml"):
        if path.name != "secrets.yml":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "services.yml").write_text("services: {ollama: {summary: Mine.}}\n")
    assert documents.shipped_house(tmp_path).services["ollama"].summary != "Mine."


def settings() -> list[tuple[str, str]]:
    """Every piece of inventory that a page shows: its place and its text."""
    shown = []
    for page in PAGES:
        text = page.read_text()
        for match in SETTINGS.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            where = f"{page.relative_to(ROOT)}:{line}"
            if isinstance(yaml.safe_load(match[1]), dict):
                shown.append((where, match[1]))
    return shown


@pytest.mark.parametrize(("where", "text"), settings(), ids=[where for where, _ in settings()])
def test_settings_on_a_page_are_valid(where: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "roles").symlink_to(ROOT / "roles")
    inventory = tmp_path / "inventory"
    local = inventory / "local"
    local.mkdir(parents=True)
    for name in FILES:
        (inventory / f"{name}.yml").write_bytes((ROOT / "inventory" / f"{name}.yml").read_bytes())
    for section in re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]:
        file = FILE_OF[section.partition(":")[0]]
        (local / f"{file}.yml").write_text(section)
    load(inventory)


def test_the_service_that_a_page_adds_gets_a_unit(tmp_path: Path) -> None:
    record, role = SETTINGS.findall((ROOT / "docs/add-a-service.md").read_text())
    (tmp_path / "roles/calendar").mkdir(parents=True)
    inventory = tmp_path / "inventory"
    (inventory / "local").mkdir(parents=True)
    for name in FILES:
        (inventory / f"{name}.yml").write_bytes((ROOT / "inventory" / f"{name}.yml").read_bytes())
    (inventory / "local/services.yml").write_text(record)
    (tmp_path / "calendar.yml").write_text(role)
    house = derive(load(inventory)).as_vars()
    (unit,) = role_data.units_of_tasks(tmp_path / "calendar.yml", house, "calendar").values()
    assert "--server-hosts=10.140.30.40:5232" in unit
    assert "ReadWritePaths=/var/lib/calendar" in unit


def test_pages_show_settings() -> None:
    assert len(settings()) >= 10


def test_the_configuration_reference_has_every_field_with_its_meaning() -> None:
    page = (ROOT / "docs/configuration.md").read_text()
    for file in FILES:
        assert f"## {file}.yml\n" in page
    kinds = [kind for kind in vars(schema).values() if isinstance(kind, type)]
    for kind in (kind for kind in kinds if issubclass(kind, schema.Record)):
        for name in kind.__annotations__:
            assert re.search(rf"\| `([\w.]+\.)?{name}` \|.*\| .+ \|", page), name
