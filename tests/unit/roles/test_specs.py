"""A role says the same in its defaults, its specification and its README."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import roledocs

ROLES = roledocs.role_folders()
TYPES: dict[str, type] = {"str": str, "int": int, "bool": bool, "list": list, "dict": dict}
SCREEN_LINES = 60


@pytest.fixture(params=ROLES, ids=[role.name for role in ROLES])
def role(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def tasks(role: Path) -> list[dict[str, Any]]:
    found = []
    for path in sorted((role / "tasks").glob("*.yml")):
        found += yaml.safe_load(path.read_text())
    return found


def test_there_are_roles() -> None:
    assert {"caddy", "litellm", "ollama"} <= {role.name for role in ROLES}


def test_specification_and_defaults_name_the_same_variables_in_the_same_order(role: Path) -> None:
    assert list(roledocs.options(role)) == list(roledocs.defaults(role))


def test_defaults_are_equal_in_type_and_value(role: Path) -> None:
    values = roledocs.defaults(role)
    for name, option in roledocs.options(role).items():
        value = values[name]
        assert type(value) is TYPES[option["type"]], name
        if isinstance(value, str) and "{{" in value:
            # It is worked out from other variables; a second template would be a second truth.
            assert "default" not in option, name
            continue
        assert "default" in option, name
        assert option["default"] == value, name
        assert value in option.get("choices", [value]), name


def test_the_comment_of_a_default_is_its_meaning_in_the_specification(role: Path) -> None:
    meant = {
        name: " ".join(option["description"].split())
        for name, option in roledocs.options(role).items()
    }
    assert roledocs.comments(role) == meant


def test_variables_start_with_the_roles_name(role: Path) -> None:
    own = yaml.safe_load(text) if (text := _text(role / "vars/main.yml")) else {}
    assert [name for name in roledocs.defaults(role) if not name.startswith(f"{role.name}_")] == []
    assert [name for name in own if not name.startswith(f"__{role.name}_")] == []


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_every_variable_is_used(role: Path) -> None:
    used = "".join(
        path.read_text()
        for folder in ("tasks", "templates", "vars", "defaults")
        for path in (role / folder).glob("*")
    )
    for name in roledocs.defaults(role):
        # Once where it is set, and at least once where it is read.
        assert len(re.findall(rf"\b{name}\b", used)) > 1, name


def test_the_readme_has_the_table_and_fits_a_screen(role: Path) -> None:
    text = (role / "README.md").read_text()
    assert text == roledocs.renewed(text, role), "run: python -m tests.roledocs"
    assert text.startswith(f"# {role.name}\n")
    assert len(text.splitlines()) <= SCREEN_LINES


def test_a_role_has_neither_handlers_nor_programs(role: Path) -> None:
    assert not (role / "handlers").exists()
    assert not (role / "files").exists()


def test_task_names_follow_the_style(role: Path) -> None:
    for path in sorted((role / "tasks").glob("*.yml")):
        prefix = "" if path.stem == "main" else rf"{path.stem} \| "
        for task in yaml.safe_load(path.read_text()):
            assert re.fullmatch(rf"{prefix}[A-Z][^|]*[^.|]", task["name"]), task["name"]
        assert len(path.read_text().splitlines()) < 80, path


def test_tags_are_the_role_and_its_phases(role: Path) -> None:
    for task in tasks(role):
        for tag in task.get("tags", []):
            assert tag == "always" or re.match(rf"{role.name}(_|$)", tag), task["name"]


def test_no_task_ignores_its_failures(role: Path) -> None:
    for task in tasks(role):
        assert "ignore_errors" not in task, task["name"]
        assert task.get("failed_when") is not False, task["name"]


def test_a_role_reads_no_other_host_and_no_group(role: Path) -> None:
    for path in role.rglob("*"):
        if path.is_file() and path.suffix in (".yml", ".j2"):
            assert not re.search(r"hostvars\[|\bgroups\[", path.read_text()), path


def test_a_converged_program_names_its_secrets_and_never_contains_them(role: Path) -> None:
    # Ansible shows a task's arguments with -vvv; only what everybody may see is looked up there.
    public = {"house_root_cert", "house_intermediate_cert"}
    for task in tasks(role):
        text = str(task.get("service_converge", {}))
        assert {*re.findall(r"'house_secret',\s*'(\w+)'", text)} <= public, task["name"]
        assert text.count("house_secret") == len(re.findall(r"'house_secret',\s*'\w+'", text))
    for path in sorted((role / "vars").glob("*.yml")):
        assert "house_secret" not in path.read_text(), path
