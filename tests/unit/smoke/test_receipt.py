"""A receipt is complete and written whole, and its page needs nothing from outside."""

import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from rich.console import Console

from hearth.catalogue import house as catalogue
from hearth.cli.verify import view
from hearth.machine.facts import gpus, machine
from hearth.smoke.history import as_text, write
from hearth.smoke.plugin import Notes
from hearth.smoke.receipt import (
    MeasuredMachine,
    Receipt,
    Verdict,
    VerifyError,
    number,
    summarise,
    time_limit,
    unverified,
)
from hearth.sources import Source
from hearth.sources.lock import record_unverified
from tests.documents import ROOT, shipped_house

RECEIPT = Receipt(
    house="house",
    made="2026-11-21T12:00:00+00:00",
    seconds=61.2,
    hearth="abc1234",
    machine=MeasuredMachine("box", "Debian 13.2", "6.12", "Ryzen 7", 8, 16 * 2**30, []),
    accelerator={"kind": "cpu", "speedup": "not measured"},
    versions={"ollama": "0.35.0"},
    addresses=["https://llm.lan", "https://home.lan"],
    figures=[summarise("first token, fast", "ms", [12.0, 14.0, 80.0], "direct")],
    verdicts=[
        Verdict("health is as expected", "ollama", "passed", "", 0.1),
        Verdict("alias answers", "local", "pending", "qwen3.5 is coming", 0.1, 40),
        Verdict("accelerator", "", "not measured", "the model is too small", 0.1),
    ],
)
FAILED = Verdict("x <b>", "y", "failed", "a < b & c", 1.0, None, {"caddy": ["line <script>"]})


def test_pending_is_no_failure_and_no_success() -> None:
    assert RECEIPT.good
    assert RECEIPT.summary == "1 pending, 1 not measured, 1 passed"
    assert RECEIPT.verdicts[1].word == "pending, 40 %"
    assert not replace(RECEIPT, verdicts=[*RECEIPT.verdicts, FAILED]).good
    assert not replace(RECEIPT, verdicts=[]).good, "nothing tested proves nothing"


def test_a_terminal_shows_each_journal_once() -> None:
    journal = {"ollama.service of ollama": ["out of memory"]}
    failed = [
        Verdict("names are answered", "", "failed", "no", 1.0, None, {"dns": ["dnsmasq ended"]}),
        Verdict("unit runs", "ollama", "failed", "no", 1.0, None, journal),
        Verdict("an alias answers", "fast", "failed", "no", 1.0, None, journal),
    ]
    console = Console(file=io.StringIO(), width=120)
    console.print(view(replace(RECEIPT, verdicts=failed)))
    output = console.file.getvalue()  # type: ignore[attr-defined]
    for line in ("Journal of dns", "dnsmasq ended", "Journal of ollama.service", "out of memory"):
        assert output.count(line) == 1, output


@pytest.mark.parametrize(
    ("last", "limit_s"),
    [
        ({"seconds": 130, "good": True, "summary": {"passed": 283}}, 260),
        # Faster than the reference, or a part of the tests.
        ({"seconds": 40, "good": True, "summary": {"passed": 283}}, 180),
        # What took how long says nothing about a run in which everything is there and good.
        ({"seconds": 130, "good": False, "summary": {"passed": 200, "failed": 83}}, 600),
        ({"seconds": 130, "good": True, "summary": {"passed": 200, "pending": 83}}, 600),
        ({"seconds": 130}, 600),
        (None, 600),
    ],
)
def test_a_run_ends_within_twice_its_usual_time(
    last: object, limit_s: float, tmp_path: Path
) -> None:
    path = tmp_path / "receipt.json"
    if last:
        path.write_text(json.dumps(last))
    assert time_limit(path) == limit_s


def test_a_terminal_shows_remarks_but_no_digests() -> None:
    console = Console(file=io.StringIO(), width=120)
    console.print(view(replace(RECEIPT, remarks=["take tiny.en"], unverified=["x: 00ff"])))
    output = console.file.getvalue()  # type: ignore[attr-defined]
    assert "take tiny.en" in output
    assert "00ff" not in output


def test_programs_can_read_the_receipt(tmp_path: Path) -> None:
    write(RECEIPT, tmp_path / "receipt")
    receipt = json.loads((tmp_path / "receipt/receipt.json").read_text())
    assert receipt["summary"] == {"pending": 1, "not measured": 1, "passed": 1}
    assert receipt["good"] is True
    figure = receipt["figures"][0]
    assert (figure["n"], figure["median"], figure["p95"]) == (3, 14.0, 80.0)
    assert receipt["machine"]["kernel"] == "6.12"
    assert receipt["verdicts"][1]["percent"] == 40
    assert sorted(path.name for path in (tmp_path / "receipt").iterdir()) == [
        "history",
        "index.html",
        "receipt.json",
        "trend.json",
    ]


def test_the_schema_describes_every_receipt() -> None:
    """What is published is what is written, with all parts that may be there."""
    schema = json.loads((ROOT / "docs/schema/receipt.json").read_text())
    memory = summarise("memory bandwidth", "GB/s", [20.0], "8 threads", "8 threads")
    machine = replace(RECEIPT.machine, drivers={"nvidia": "580.1"}, memory_bandwidth=memory)
    full = replace(RECEIPT, machine=machine, verdicts=[*RECEIPT.verdicts, FAILED])
    for receipt in (RECEIPT, full):
        document = json.loads(as_text(receipt))
        jsonschema.validate(document, schema)
        # A property that is not described would be one that nobody can rely on.
        assert document.keys() == schema["properties"].keys()
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "figures": [{"name": "x"}]}, schema)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(VerifyError, match=r"cannot write the receipt: .*: run this as root"):
        write(RECEIPT, tmp_path / "file" / "receipt")


class Links(HTMLParser):
    """Everything that a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)
        if tag in ("script", "link", "img", "iframe") or any(name == "src" for name, _ in attrs):
            self.fetched.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_complete_and_fetches_nothing(tmp_path: Path) -> None:
    addresses = ["http://192.0.2.10/", "http://trust.lan/"]
    memory = summarise("memory bandwidth", "GB/s", [20.0, 21.5, 24.0], "8 threads copy 128 MiB")
    machine = replace(RECEIPT.machine, drivers={"nvidia": "580.1"}, memory_bandwidth=memory)
    full = replace(RECEIPT, verdicts=[*RECEIPT.verdicts, FAILED], trust=addresses, machine=machine)
    write(full, tmp_path)
    page = (tmp_path / "index.html").read_text()
    links = Links()
    links.feed(page)
    assert links.fetched == []
    assert links.open == []
    assert "url(" not in page
    for words in ("pending, 40 %", "qwen3.5 is coming", "16.0 GiB", "Debian 13.2, Linux 6.12"):
        assert words in page
    for words in ("21.5 GB/s: 8 threads copy 128 MiB", "nvidia 580.1"):
        assert words in page
    assert [f'<a href="{address}">{address}</a>' in page for address in addresses] == [True, True]
    assert "a &lt; b &amp; c" in page
    assert "<script>" not in page
    assert re.search(r"21 November 2026, 12:00 UTC", page)


@pytest.mark.parametrize(("value", "text"), [(1234.5, "1234"), (12.34, "12.3"), (0.0456, "0.0456")])
def test_numbers_keep_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_facts_of_this_machine() -> None:
    here = machine()
    assert here.cores > 0
    assert here.memory_bytes > 2**27
    assert here.system


def test_graphics_devices_are_named_with_their_driver(tmp_path: Path) -> None:
    bus = tmp_path / "sys/bus/pci/devices"
    for name, device_class, vendor in (("a", "0x030000", "0x1002"), ("b", "0x020000", "0x8086")):
        (bus / name).mkdir(parents=True)
        (bus / name / "class").write_text(device_class + "\n")
        (bus / name / "vendor").write_text(vendor + "\n")
        (bus / name / "device").write_text("0x1638\n")
    (tmp_path / "amdgpu").mkdir()
    (bus / "a/driver").symlink_to(tmp_path / "amdgpu")
    assert gpus(tmp_path) == ["AMD 1638 (amdgpu)"]


@pytest.mark.parametrize(
    ("values", "median", "p95"),
    [
        ([3.0], 3.0, 3.0),
        ([1.0, 2.0, 3.0, 10.0], 2.5, 10.0),
        ([float(value) for value in range(1, 101)], 50.5, 95.0),
    ],
)
def test_median_and_tail(values: list[float], median: float, p95: float) -> None:
    figure = summarise("first token", "ms", list(reversed(values)))
    assert (figure.n, figure.median, figure.p95) == (len(values), median, p95)


def test_nothing_measured_is_no_figure() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        Notes().figure("x", "s", [])


def test_values_of_several_tests_become_one_figure() -> None:
    notes = Notes()
    for value in (1.4, 1.7, 1.5):
        notes.sample("exposure of units", "of 10", value)
    notes.figure("first token", "ms", [20.0])
    figures = notes.as_event()["figures"]
    assert [(f["name"], f["n"], f["median"]) for f in figures] == [  # type: ignore[attr-defined]
        ("first token", 1, 20.0),
        ("exposure of units", 3, 1.5),
    ]


URL = "https://example.org/ollama.tar.zst"


def test_only_a_digest_that_the_house_recorded_is_listed(tmp_path: Path) -> None:
    shipped = catalogue.Source("ollama", "0.35.0", URL, None, None)
    house = replace(shipped_house(), sources={"ollama": shipped})
    assert unverified(tmp_path, house) == []
    (tmp_path / "local").mkdir()
    record_unverified(tmp_path, Source("ollama", "0.35.0", URL), "a" * 64)
    (line,) = unverified(tmp_path, house)
    assert line.startswith("ollama 0.35.0: unverified: ")
    assert line.endswith("a" * 64)
    pinned = replace(house, sources={"ollama": replace(shipped, sha256="b" * 64)})
    assert unverified(tmp_path, pinned) == []
