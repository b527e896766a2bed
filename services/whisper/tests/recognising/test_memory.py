"""How much memory there is: the machine's, or less where a control group says so."""

from pathlib import Path

import pytest

from hearth_whisper.recognising.memory import free_bytes, needed_bytes

MIB = 1 << 20


def write(root: Path, place: str, text: str) -> None:
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, 1000 * MIB),
        ({"a": ("max", 0), "a/b": ("max", 0)}, 1000 * MIB),
        ({"a": (600 * MIB, 100 * MIB), "a/b": ("max", 0)}, 500 * MIB),
        ({"a": (600 * MIB, 0), "a/b": (400 * MIB, 500 * MIB)}, 0),
    ],
    ids=["no group", "no limit", "above", "too full"],
)
def test_the_narrowest_limit_counts(
    tmp_path: Path, limits: dict[str, tuple[int | str, int]], expected: int
) -> None:
    write(tmp_path, "proc/meminfo", f"MemTotal: 9999999 kB\nMemAvailable:  {1000 << 10} kB\n")
    write(tmp_path, "proc/self/cgroup", "0::/a/b\n")
    for group, (most, used) in limits.items():
        write(tmp_path, f"sys/fs/cgroup/{group}/memory.max", f"{most}\n")
        write(tmp_path, f"sys/fs/cgroup/{group}/memory.current", f"{used}\n")
    assert free_bytes(tmp_path) == expected


def test_what_files_hold_and_nobody_uses_is_free(tmp_path: Path) -> None:
    write(tmp_path, "proc/meminfo", f"MemAvailable:  {9000 << 10} kB\n")
    write(tmp_path, "proc/self/cgroup", "0::/a\n")
    write(tmp_path, "sys/fs/cgroup/a/memory.max", f"{600 * MIB}\n")
    write(tmp_path, "sys/fs/cgroup/a/memory.current", f"{550 * MIB}\n")
    sizes = {"anon": 100, "inactive_file": 300, "active_file": 150, "file_mapped": 50}
    stat = "".join(f"{name} {size * MIB}\n" for name, size in sizes.items())
    write(tmp_path, "sys/fs/cgroup/a/memory.stat", stat)
    assert free_bytes(tmp_path) == 450 * MIB


def test_a_second_copy_needs_more(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"0" * MIB)
    assert needed_bytes(tmp_path, 2) > needed_bytes(tmp_path, 1) > MIB
