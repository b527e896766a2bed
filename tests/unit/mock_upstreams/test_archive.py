"""The archive has the real one's layout and says what it was made from."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest
import zstandard

from tests.mock_upstreams import MockUpstreamsError, __main__, ollama_archive, server


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    folder = tmp_path / "packages"
    for _, pattern in ollama_archive.PARTS:
        path = folder / pattern.replace("*", "0")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pattern)
    for name in ollama_archive.PACKAGES:
        path = folder / "usr/share/doc" / name / ollama_archive.CHANGELOG
        path.parent.mkdir(parents=True)
        path.write_bytes(gzip.compress(f"{name} (1.0-1) unstable; urgency=low\n".encode()))
    return folder


def members(archive: Path) -> dict[str, tarfile.TarInfo]:
    plain = zstandard.ZstdDecompressor().stream_reader(archive.read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        note = tar.extractfile("lib/ollama/BUILT_FROM.json")
        assert note is not None
        assert json.load(note)["sources"][0].startswith("llama.cpp-tools (1.0-1)")
        return {member.name: member for member in tar}


def test_layout_is_the_real_ones_and_bytes_repeat(tmp_path: Path, packages: Path) -> None:
    program = tmp_path / "ollama"
    program.write_text("program")
    first, second = tmp_path / "first", tmp_path / "second"
    for target in (first, second):
        ollama_archive.pack(program, packages, target)
        program.touch()
    assert first.read_bytes() == second.read_bytes()
    found = members(first)
    assert {"bin/ollama", "lib/ollama/llama-server"} <= set(found)
    # Ollama looks for GPU backends in folders below lib/ollama, and for CPU ones in it.
    assert "lib/ollama/vulkan/libggml-vulkan.so" in found
    assert "lib/ollama/libggml-cpu-0.so" in found


def test_a_missing_part_is_named(packages: Path) -> None:
    next(packages.rglob("libmtmd*")).unlink()
    with pytest.raises(MockUpstreamsError, match=r"libmtmd\.so\.\*"):
        ollama_archive.library_members(packages)


def test_a_missing_program_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MockUpstreamsError, match="apt-get install mmdebstrap"):
        ollama_archive.build(tmp_path)


def test_another_recipe_has_another_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ollama_archive.archive_path(tmp_path)
    monkeypatch.setattr(ollama_archive, "VERSION", "0.0.1")
    assert ollama_archive.archive_path(tmp_path) != before


def test_an_empty_cache_is_not_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MockUpstreamsError, match=r"python -m tests\.mock_upstreams prepare"):
        server.check_filled(tmp_path)
    assert __main__.main(["serve", "--address", "127.0.0.1", "--cache", str(tmp_path)]) == 1
    assert "is not filled" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
