"""The modules of the pages, run by Node.js: what needs no browser."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hearth_serving.page import SHARED, page_files

SERVICES = Path(__file__).parents[2]
PAGES = sorted(file.parent for file in SERVICES.glob("*/hearth_*/page/main.mjs"))
MODULES = sorted(SERVICES.glob("*/hearth_*/page/*.mjs"))
TESTS = sorted(SERVICES.glob("*/tests/**/*.test.mjs"))


def name_of(path: Path) -> str:
    return f"{path.relative_to(SERVICES).parts[0]}-{path.name}"


def run_node(*words: str) -> subprocess.CompletedProcess[str]:
    node = shutil.which("node")
    assert node, "node is not there: apt install nodejs (scripts/test does it)"
    return subprocess.run([node, *words], capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as browsers have them, shared files beside their own, and the modules' tests."""
    root = tmp_path_factory.mktemp("services")
    shutil.copytree(SHARED, root / "serving/hearth_serving/page")
    for page in PAGES:
        folder = root / page.relative_to(SERVICES)
        folder.mkdir(parents=True)
        for name, content in page_files(page).items():
            (folder / name).write_bytes(content)
    for test in TESTS:
        copy = root / test.relative_to(SERVICES)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(test.read_bytes())
    return root


def test_each_page_has_tests_of_its_modules() -> None:
    tried = {test.relative_to(SERVICES).parts[0] for test in TESTS}
    pages = {page.relative_to(SERVICES).parts[0] for page in PAGES}
    assert pages == {"health", "kokoro", "trust", "voice", "whisper"}
    assert tried == {*pages, "serving"}


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_a_module_is_javascript(module: Path) -> None:
    done = run_node("--check", str(module))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("test", TESTS, ids=name_of)
def test_a_modules_tests_pass(test: Path, served: Path) -> None:
    done = run_node("--test", "--test-reporter=tap", str(served / test.relative_to(SERVICES)))
    assert done.returncode == 0, done.stdout + done.stderr
    # A file without a single test would pass as well.
    assert re.search(r"^# tests [1-9]", done.stdout, re.MULTILINE), done.stdout
