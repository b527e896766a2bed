"""New services become records of services to be removed, and the rest stays as written."""

import yaml

from hearth.approvals.new_services import as_removed, services_added

OLD = """
services:
  kokoro: {enabled: false}
"""
PROPOSED = """
services:
  kokoro: {enabled: true}
  second:
    role: kokoro
    on: house
    port: 8890
    needs: [kokoro]
    present: true
"""


def test_only_names_that_nothing_else_has_are_new() -> None:
    assert services_added(PROPOSED, OLD) == ["second"]
    assert services_added(PROPOSED, OLD, "services: {second: {}}") == []
    assert services_added("# nothing\n", OLD) == []


def test_new_ones_are_absent_and_the_old_ones_as_before() -> None:
    text = as_removed(OLD, PROPOSED, ["second"])
    second = {"role": "kokoro", "on": "house", "port": 8890, "present": False}
    loaded = yaml.load(text.replace("on:", "'on':"), yaml.SafeLoader)
    assert loaded["services"] == {"kokoro": {"enabled": False}, "second": second}
    assert "\n    on: house\n" in text


def test_a_file_without_services_gets_them() -> None:
    for old in ("", "services:\n", "# mine\n"):
        loaded = yaml.safe_load(as_removed(old, "services: {second: {port: 1}}", ["second"]))
        assert loaded == {"services": {"second": {"port": 1, "present": False}}}, old
