"""The package that pip builds holds every file that Hearth reads, and only Hearth's packages."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = {
    "hearth": "hearth",
    "hearth_kokoro_patch": "services/kokoro_patch/hearth_kokoro_patch",
    "hearth_open_webui": "services/open_webui/hearth_open_webui",
    "hearth_serving": "services/serving/hearth_serving",
}
# A note for people, and what makes the recordings.
NOT_SHIPPED = {".md", ".pyc"}


def test_a_wheel_holds_every_file(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for folder in PACKAGES.values():
        shutil.copytree(ROOT / folder, source / folder)
    for name in ("pyproject.toml", "README.md", "requirements/controller.in"):
        (source / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    code = "from setuptools import build_meta; build_meta.build_wheel('..')"
    subprocess.run(
        [sys.executable, "-c", code], cwd=source, check=True, capture_output=True, timeout=120
    )
    (wheel,) = tmp_path.glob("hearth-*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = {
        f"{package}/{path.relative_to(ROOT / folder)}"
        for package, folder in PACKAGES.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix not in NOT_SHIPPED
    }
    assert held == wanted
