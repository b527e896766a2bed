"""The chart of a whole run: small enough to be read, and every figure in its place."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from hearth.bench import chart
from hearth.bench.report import BaselineFigures, BenchMachine, ServerReport, figures_of
from hearth.bench.tts.answer import FIELDS, TOTALS, TtsCase, TtsSample
from hearth.bench.tts.run import FORM, TtsPlan, TtsReport
from hearth.bench.tts.view import panels

REST = (
    *(TtsCase("phrase"), TtsCase("phrase", repeated=True), TtsCase("paragraph"), TtsCase("long")),
    *(TtsCase("phrase", clients=4), TtsCase("phrase", clients=8)),
)


def report(cells: list[TtsCase], *names: str) -> TtsReport:
    servers = []
    for name in names:
        figures = []
        for case in (*REST, *cells):
            last_s = 290.0 if case.what == "long" else 2.8
            sample = TtsSample(95, "", 300, 300, last_s * 1000, stalls=1, audio_s=6.0)
            figures.append(figures_of(case, [sample], FIELDS, TOTALS))
        words: dict[str, Any] = dict.fromkeys(("url", "model", "stopped"), "") | {"status": {}}
        more: Any = {"threads": 2, "memory_bytes": None, "health": None, **words}
        servers.append(ServerReport(name=name, figures=tuple(figures), **more))
    machine = BenchMachine("m", "Debian", "6", "CPU", 2, 2**32, [], 0.1)
    baseline = BaselineFigures({}, "", "none")
    ran: Any = {"form": FORM, "started": "now", "seconds": 1.0, "quick": False, "runs": 10}
    made: Any = {"machine": machine, "servers": tuple(servers), "baseline": baseline}
    return TtsReport(**ran, **made, rounds=(), ratios=())


def test_the_charts_of_a_whole_run_are_side_by_side() -> None:
    lines = panels(report(TtsPlan().cells, "kokoro"))
    assert [[panel.title for panel in line] for line in lines] == [
        ["one at a time"],
        ["several at once"],
        ["longer texts"],
        ["every format, af_heart", "every format, bm_fable", "every format, ef_dora"],
    ]
    assert [len(panel.bars) for panel in lines[-1]] == [12, 12, 12]
    labels = [bar.label for bar in lines[-1][0].bars]
    assert labels[:3] == ["pcm", "pcm, not streamed", "wav"]
    drawn = [bar.end for line in lines for panel in line for bar in panel.bars]
    assert len(drawn) == len(REST) + 36
    assert None not in drawn


def test_what_one_voice_lacks_leaves_its_place_empty(tmp_path: Path) -> None:
    cells = [case for case in TtsPlan().cells if (case.voice, case.format) != ("bm_fable", "pcm")]
    less = report(cells, "kokoro")
    missing = {
        panel.title: [bar.label for bar in panel.bars if bar.end is None]
        for panel in panels(less)[-1]
    }
    assert missing.pop("every format, bm_fable") == ["pcm", "pcm, not streamed"]
    assert list(missing.values()) == [[], []]
    chart.draw("Speech", "", panels(less), tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 1000


@pytest.mark.parametrize(("names", "most"), [(("kokoro",), 1300), (("kokoro", "other"), 2000)])
def test_it_is_no_taller_than_a_person_scrolls(
    tmp_path: Path, names: tuple[str, ...], most: int
) -> None:
    chart.draw("Speech", "", panels(report(TtsPlan().cells, *names)), tmp_path / "chart.png")
    width, height = struct.unpack(">II", (tmp_path / "chart.png").read_bytes()[16:24])
    assert 1200 < width < 1600
    assert height < most
