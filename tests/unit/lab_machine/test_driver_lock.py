"""The browsers' driver comes as it was locked: exact versions, digests, no address."""

import json
import re
from pathlib import Path

DRIVER = Path(__file__).parents[3] / "tests/browser"


def test_every_package_is_named_by_version_and_digest_and_by_no_address() -> None:
    packages = json.loads((DRIVER / "package-lock.json").read_text())["packages"]
    ours = packages.pop("")
    assert len(packages) > 20
    for name, package in packages.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+\S*", package["version"]), name
        assert package["integrity"].startswith("sha512-"), name
        assert "resolved" not in package, name
        # Nothing is built and nothing runs while it is installed.
        assert not package.get("hasInstallScript"), name
    wanted = json.loads((DRIVER / "package.json").read_text())["dependencies"]
    assert ours["dependencies"] == wanted
    assert all(packages[f"node_modules/{name}"]["version"] == at for name, at in wanted.items())


def test_it_runs_on_the_node_of_debian_13() -> None:
    packages = json.loads((DRIVER / "package-lock.json").read_text())["packages"]
    wanted = [package.get("engines", {}).get("node", "*") for package in packages.values()]
    least = [
        int(found[1]) for text in wanted for found in [re.search(r">=\s*(\d+)", text)] if found
    ]
    assert max(least) <= 20, sorted(set(wanted))
