from __future__ import annotations

from pathlib import Path

import pytest

from hearth_model_puller import environment
from hearth_model_puller.model_list import Model

GB = 10**9
MODEL = Model(("m",), "m:latest", 6 * GB, 7 * GB, None)


def test_memory_is_the_total_or_the_cgroup_limit_if_that_is_less(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  1000 kB\nMemAvailable: 10 kB\n")
    limit = tmp_path / "memory.max"
    assert environment.memory_bytes(meminfo, limit) == 1_024_000
    limit.write_text("max\n")
    assert environment.memory_bytes(meminfo, limit) == 1_024_000
    limit.write_text("500000\n")
    assert environment.memory_bytes(meminfo, limit) == 500_000


def test_a_model_fits_if_there_is_exactly_its_memory() -> None:
    assert environment.memory_problem(MODEL, 7 * GB) is None
    assert "needs 7.0 GB of memory and there are 6.9 GB" in str(
        environment.memory_problem(MODEL, 69 * GB // 10)
    )


@pytest.mark.parametrize(
    ("partial", "free", "fits"), [(0, 7 * GB, True), (0, 7 * GB - 1, False), (5 * GB, 2 * GB, True)]
)
def test_partial_downloads_need_less_space(partial: int, free: int, fits: bool) -> None:
    assert (environment.disk_problem(MODEL, partial, free, GB) is None) is fits


def test_free_bytes_of_a_folder_that_does_not_exist_yet(tmp_path: Path) -> None:
    assert environment.free_bytes(tmp_path / "not" / "yet") > 0
