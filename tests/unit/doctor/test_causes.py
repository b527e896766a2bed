"""One cause is one finding; each kind has its text, its page, and a fix if it says so."""

import re
from pathlib import Path

import pytest

from hearth.doctor import kinds
from hearth.doctor.examination import EXPLAINS, causes
from hearth.doctor.finding import CHECKS, Finding, Kind
from hearth.doctor.fixes import FIXES

EVERYTHING = ("*",)


def left(*found: Finding) -> list[str]:
    return [one.key for one in causes({"a check": found})]


def about(kind: Kind, name: str = "", hits: tuple[str, ...] = ()) -> Finding:
    return Finding(kind, name, "1 of 2", hits)


DEAD = about(kinds.SERVICE_DOWN, "ollama", ("qwen3.5:4b",))


def test_a_dead_service_is_not_also_slow_and_without_its_models() -> None:
    consequences = [
        about(kinds.MODEL_MISSING, "qwen3.5:4b"),
        about(kinds.MODELS_UNKNOWN, "ollama"),
        about(kinds.GPU_ON_CPU, "ollama"),
        about(kinds.CANARY_FAILED, "token of qwen3.5:4b"),
    ]
    assert left(*consequences, DEAD) == ["HEARTH-SERVICE-DOWN:ollama"]


def test_another_service_has_its_own_finding() -> None:
    other = about(kinds.SERVICE_HUNG, "kokoro"), about(kinds.MODEL_MISSING, "tiny")
    assert left(DEAD, *other) == [
        "HEARTH-MODEL-MISSING:tiny",
        "HEARTH-SERVICE-DOWN:ollama",
        "HEARTH-SERVICE-HUNG:kokoro",
    ]


@pytest.mark.parametrize(
    ("cause", "consequence"),
    [
        (about(kinds.INCUS_DOWN, "", EVERYTHING), about(kinds.SERVICE_DOWN, "kokoro")),
        (about(kinds.INCUS_DOWN, "", EVERYTHING), about(kinds.CHECK_FAILED, "cards")),
        (about(kinds.DISK_FULL, "/var", EVERYTHING), about(kinds.INCUS_DOWN, "")),
        (about(kinds.FIREWALL_GONE, "", EVERYTHING), about(kinds.CONNECTIONS)),
        (about(kinds.FIREWALL_GONE, "", EVERYTHING), about(kinds.SERVICE_HUNG, "kokoro")),
        (about(kinds.DOCKER_BLOCKS, "", EVERYTHING), about(kinds.CONNECTIONS)),
        (about(kinds.PORT_TAKEN, "9180", ("login",)), about(kinds.SERVICE_LOOPS, "login")),
        (about(kinds.OUT_OF_MEMORY, "kokoro"), about(kinds.SERVICE_DOWN, "kokoro")),
        (about(kinds.DISK_FULL, "/var", EVERYTHING), about(kinds.SERVICE_LOOPS, "kokoro")),
        (about(kinds.CLOCK_WRONG, "", EVERYTHING), about(kinds.CERTIFICATE_ENDING, "chat.lan")),
        (about(kinds.GPU_DRIVER, "cuda", ("ollama",)), about(kinds.GPU_ON_CPU, "ollama")),
        (about(kinds.SERVICE_DOWN, "watch"), about(kinds.WATCHER_SILENT, "watch")),
        (about(kinds.SERVICE_DOWN, "kokoro"), about(kinds.METRICS_MISSING, "kokoro")),
        (about(kinds.FIREWALL_GONE, "", EVERYTHING), about(kinds.METRICS_MISSING, "kokoro")),
        (about(kinds.SERVICE_DOWN, "caddy"), about(kinds.SITE_UNREACHABLE, "chat.lan")),
        (
            about(kinds.CERTIFICATE_ENDING, "chat.lan"),
            about(kinds.SITE_UNREACHABLE, "chat.lan"),
        ),
        (about(kinds.ADDRESS_CHANGED, "", EVERYTHING), about(kinds.DNS_OTHER_SERVER, "10.0.0.1")),
    ],
)
def test_a_consequence_is_left_out(cause: Finding, consequence: Finding) -> None:
    assert left(cause, consequence) == [cause.key]
    assert left(consequence) == [consequence.key]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # A firewall does not end a program.
        (about(kinds.FIREWALL_GONE, "", EVERYTHING), about(kinds.SERVICE_DOWN, "kokoro")),
        (about(kinds.PORT_TAKEN, "9180", ("login",)), about(kinds.SERVICE_DOWN, "caddy")),
        # An edit may have nothing to do with it.
        (about(kinds.FILE_EDITED, "kokoro:/etc/x"), about(kinds.SERVICE_LOOPS, "kokoro")),
        (about(kinds.CLOCK_WRONG, "litellm"), about(kinds.BACKUP_OLD)),
        # An alert about a program has to arrive all the same.
        (about(kinds.SERVICE_DOWN, "kokoro"), about(kinds.ALERT_NOT_SENT, "email")),
        (about(kinds.SERVICE_DOWN, "ollama"), about(kinds.METRICS_MISSING, "kokoro")),
    ],
)
def test_what_is_no_consequence_stays(one: Finding, other: Finding) -> None:
    assert {*left(one, other)} == {one.key, other.key}


def test_no_two_kinds_explain_each_other() -> None:
    for cause, explained in EXPLAINS.items():
        assert cause not in explained
        assert not any(cause in EXPLAINS.get(one, ()) for one in explained), cause.name


def test_there_are_enough_kinds_and_each_speaks_to_a_person() -> None:
    assert len(kinds.ALL) >= 25
    for name, kind in kinds.ALL.items():
        assert name == kind.name
        assert re.fullmatch(r"HEARTH(-[A-Z]+)+", name)
        assert kind.title[0].isupper()
        assert not kind.title.endswith(".")
        for text in (kind.means, kind.todo):
            assert text.endswith("."), text
            assert len(text) > 30
        assert ("--fix" in kind.todo) == kind.fixable, name


def test_the_lab_breaks_a_house_in_the_way_of_each_kind() -> None:
    # Prometheus waits for minutes before it reports the others; tests/lab/test_health.py does.
    own = kinds.ALL.keys() - kinds.BY_PROMETHEUS.keys()
    lab = (Path(__file__).parents[2] / "lab/test_doctor.py").read_text(encoding="utf-8")
    assert [name for name in sorted(own) if f"{name}:" not in lab] == []


def test_each_fixable_kind_has_a_fix_and_no_other() -> None:
    assert {kind.name for kind in FIXES} == {one.name for one in kinds.ALL.values() if one.fixable}


def test_the_checks_are_done_long_before_ten_seconds() -> None:
    assert len(CHECKS) >= 20
    assert all(one.within_s <= 7 for one in CHECKS.values())
