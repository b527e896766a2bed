"""A role whose specification and defaults disagree is named, with the variable."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "check_roles.py"


@pytest.fixture(scope="module")
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_roles", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def role(folder: Path, defaults: str, options: str) -> Path:
    made = folder / "litellm"
    for name in ("defaults", "meta", "tasks"):
        (made / name).mkdir(parents=True)
    (made / "defaults" / "main.yml").write_text(defaults)
    spec = f"argument_specs: {{main: {{options: {options}}}}}\n"
    (made / "meta" / "argument_specs.yml").write_text(spec)
    return made


@pytest.mark.parametrize(
    ("defaults", "options", "wrong"),
    [
        ("litellm_a: 1\n", "{litellm_a: {type: int}}", []),
        ("---\n", "{litellm_b: {required: true}}", []),
        ("litellm_a: 1\n", "{}", ["litellm_a has a default and no description"]),
        ("---\n", "{litellm_a: {}}", ["litellm_a is described as optional and has no default"]),
        ("litellm_a: 1\n", "{litellm_a: {required: true}}", ["required and has a default"]),
        ("other: 1\n", "{other: {}}", ["other does not begin with the role's name"]),
    ],
)
def test_what_disagrees_is_named(
    check: ModuleType, tmp_path: Path, defaults: str, options: str, wrong: list[str]
) -> None:
    found = check.problems(role(tmp_path, defaults, options))
    assert len(found) == len(wrong)
    assert all(text in line for text, line in zip(wrong, found, strict=True))


def test_a_role_without_a_specification_is_refused(check: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "litellm" / "tasks").mkdir(parents=True)
    assert "missing" in check.problems(tmp_path / "litellm")[0]
