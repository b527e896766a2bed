"""The packages of Hearth import each other in one direction (contracts in pyproject.toml)."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_imports_run_one_way_and_the_product_imports_no_tests() -> None:
    # Here, so that the other tests run in an environment without the linter, too.
    from importlinter.cli import lint_imports

    # Also what is imported inside functions or only for types counts.
    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0
