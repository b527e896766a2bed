"""An entry is added to a file that people edit, and nothing else in it changes."""

from pathlib import Path

import pytest
import yaml

from hearth.yaml_edit import EditError, set_in_file, with_value

KEYS = ("sources", "tool@1.0")
RECORD = {"version": "1.0", "url": "https://example.org/a", "sha256": "1" * 64}
LINES = (
    '  "tool@1.0":\n    version: "1.0"\n    url: "https://example.org/a"\n'
    f'    sha256: "{"1" * 64}"\n'
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("---\n", f"---\nsources:\n{LINES}"),
        ("sources: {}\n", f"sources:\n{LINES}"),
        ("sources:\n", f"sources:\n{LINES}"),
        ("# mine\nmodels:\n  a: b  # b\n", f"# mine\nmodels:\n  a: b  # b\nsources:\n{LINES}"),
        (
            "sources:\n  # why\n  other: {version: '1'}  # f\n\n# end\nmirrors: {}\n",
            f"sources:\n  # why\n  other: {{version: '1'}}  # f\n{LINES}\n# end\nmirrors: {{}}\n",
        ),
        (
            "sources:\n  other:\n    version: '1' # one\n\n\nmirrors: {}",
            f"sources:\n  other:\n    version: '1' # one\n{LINES}\n\nmirrors: {{}}",
        ),
        (
            "sources:\n  'tool@1.0':\n    sha256: old\n  # next\n  other: {}\n",
            f"sources:\n{LINES}  # next\n  other: {{}}\n",
        ),
    ],
)
def test_the_rest_is_unchanged(old: str, new: str) -> None:
    assert with_value(old, KEYS, RECORD) == new


def test_four_columns_stay_four(tmp_path: Path) -> None:
    text = with_value("sources:\n    other: {}\n", KEYS, RECORD)
    assert '\n    "tool@1.0":\n      version' in text


def test_digits_stay_text(tmp_path: Path) -> None:
    set_in_file(tmp_path / "a.yml", ("models", "llama3.1"), "sha256:12")
    set_in_file(tmp_path / "a.yml", ("models", "on"), "1e5")
    set_in_file(tmp_path / "a.yml", ("models", "llama3.1"), "sha256:13")
    assert yaml.safe_load((tmp_path / "a.yml").read_text()) == {
        "models": {"llama3.1": "sha256:13", "on": "1e5"}
    }


@pytest.mark.parametrize(
    "odd", ["sources: {other: &a {a: b}, 'tool@1.0': *a, x: *a}\n", "- a\n", "sources: [\n", "a\n"]
)
def test_a_value_that_cannot_be_extended_is_unchanged_and_reported(
    tmp_path: Path, odd: str
) -> None:
    path = tmp_path / "sources.lock.yml"
    path.write_text(odd)
    with pytest.raises(EditError, match=r'write into its section sources: "tool@1.0":') as caught:
        set_in_file(path, KEYS, RECORD)
    assert "\n" not in str(caught.value)
    assert path.read_text() == odd
