"""An unknown form is rejected in one line that names the file, and nothing changes."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hearth_kokoro_patch import ALL, PatchError, plan, state, take_back
from hearth_kokoro_patch.player import ANCHOR

from .conftest import NAMES, Release, contents

ENGINE, SERVICE, PLAYER = NAMES.values()


def put(name: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))

    return edit


def write(name: str, content: bytes) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return edit


def linked(folder: Path) -> None:
    (folder / ENGINE).rename(folder / "elsewhere.py")
    (folder / ENGINE).symlink_to(folder / "elsewhere.py")


def linked_out(folder: Path) -> None:
    outside = folder.parent / "outside"
    (folder / "web").rename(outside)
    (folder / "web").symlink_to(outside)


def gone(name: str) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return remove


FORMS = {
    "no loop": (
        put(ENGINE, "self._pipeline(text,", "self._speak(text,"),
        f"{ENGINE}: no loop `for ... in pipeline(text, ...)` was found",
    ),
    "another pattern": (
        put(ENGINE, "model=self._model):", "split_pattern=r';'):"),
        f"{ENGINE}: the pipeline is called with `split_pattern=r';'`",
    ),
    "a pattern by place": (
        put(ENGINE, "(text, voice=voice_path, speed=speed,", r"(text, voice_path, speed, '\\n',"),
        rf"{ENGINE}: the pipeline is called with `'\\n'`",
    ),
    "unknown arguments": (
        put(ENGINE, "model=self._model):", "**self.options):"),
        f"{ENGINE}: the pipeline is called with `**self.options`",
    ),
    "two on a line": (
        put(SERVICE, "            yield result\n", "            yield result; done = 1\n"),
        f"{SERVICE}: each `yield` was expected alone in its line",
    ),
    "an answered yield": (
        put(SERVICE, "            yield result\n", "            got = yield result\n"),
        f"{SERVICE}: each `yield` was expected alone in its line",
    ),
    "no yield": (
        write(SERVICE, b"import asyncio\n"),
        f"{SERVICE}: no `yield` in an `async def` was found",
    ),
    "no import of the engine": (
        put(SERVICE, "from ..inference.kokoro_v1 import KokoroV1", "KokoroV1 = object"),
        f"{SERVICE}: `from ..inference.kokoro_v1 import KokoroV1` is missing",
    ),
    "not Python": (
        put(ENGINE, "class KokoroV1(", "class KokoroV1(("),
        f"{ENGINE}: line ",
    ),
    "another player": (
        put(PLAYER, "onProgress, estimatedChunks) {", "onProgress) {"),
        f"{PLAYER}: `async setupAudioStream(stream, response, onProgress, estimatedChunks) {{` "
        "was expected once and found 0 times",
    ),
    "two players": (
        put(
            PLAYER,
            "export default",
            f"class Two {{\n{ANCHOR}    }}\n}}\n" + "export default",
        ),
        "was expected once and found 2 times",
    ),
    "a player with half of an own fallback": (
        put(PLAYER, "const estimated", "MediaSource.isTypeSupported('audio/mpeg');const estimated"),
        f"{PLAYER}: MediaSource is checked for audio/mpeg, but no Blob",
    ),
    "broken JavaScript": (
        put(PLAYER, "export default AudioService;", "export default {{;"),
        f"{PLAYER}: `node --check` rejects the patched file: SyntaxError",
    ),
    "UTF-16": (
        write(ENGINE, "import os\n".encode("utf-16")),
        f"{ENGINE}: is not text that can be read",
    ),
    "an encoding that does not exist": (
        write(ENGINE, b"# -*- coding: klingon -*-\n"),
        f"{ENGINE}: is not text that can be read (unknown encoding",
    ),
    "another encoding than declared": (
        write(ENGINE, b"name = '\xff'\n"),
        f"{ENGINE}: is not text that can be read",
    ),
    "characters with two encodings": (
        write(ENGINE, b"# -*- coding: utf-7 -*-\nname = '+AGE-'\n"),
        f"{ENGINE}: is not plain text in utf-7",
    ),
    "zero bytes": (write(ENGINE, b"a = 1\0\n"), f"{ENGINE}: is not plain text in utf-8"),
    "a link": (linked, "kokoro_v1.py: is a link to"),
    "a link out of the folder": (linked_out, "AudioService.js: lies in"),
    "a folder": (
        lambda folder: (gone(PLAYER)(folder), (folder / PLAYER).mkdir(parents=True))[0],
        "AudioService.js: is not a file",
    ),
    "no player": (gone("web"), "use `--without player` if you have no web player"),
    "no engine": (gone(ENGINE), "kokoro_v1.py: is not there; releases before v0.2.0"),
    "something else": (gone("api"), f"holds no Kokoro-FastAPI: {ENGINE} is missing"),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_unknown_form_is_rejected_and_nothing_changes(release: Release, form: str) -> None:
    folder = release("v0.2.0")
    make, expected = FORMS[form]
    make(folder)
    before = contents(folder)
    with pytest.raises(PatchError) as refused:
        plan(folder)
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)
    assert contents(folder) == before


def test_a_path_that_is_not_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(PatchError, match="nowhere: is not a folder"):
        plan(tmp_path / "nowhere")


def test_without_the_player_step_no_player_is_needed(release: Release) -> None:
    folder = release("v0.2.0")
    shutil.rmtree(folder / "web")
    plan(folder, ALL - {"player"}).apply()
    assert state(folder) == "applied"


def test_a_file_that_was_edited_later_is_not_changed(release: Release) -> None:
    folder = release("v0.8")
    plan(folder).apply()
    put(SERVICE, "# Some at once", "# Only some at once")(folder)
    edited = contents(folder)
    for change in (plan, take_back):
        with pytest.raises(PatchError, match=r"tts_service\.py: was changed after it was patched"):
            change(folder)
    assert contents(folder) == edited
    assert state(folder) == "partly"


def test_a_release_copied_over_a_patched_one_is_patched_again(release: Release) -> None:
    old, new = release("v0.6"), release("v0.8")
    plan(old).apply()
    for name in NAMES.values():
        shutil.copy(new / name, old / name)
    assert state(old) == "none"
    plan(old).apply()
    assert state(old) == "applied"
    take_back(old)
    assert contents(old) == contents(new)


def test_a_patched_file_without_its_record_is_kept_or_rejected(release: Release) -> None:
    folder = release("v0.8")
    plan(folder).apply()
    shutil.rmtree(folder / ".hearth-patch")
    assert state(folder) == "applied"
    assert plan(folder).files == ()
    with pytest.raises(PatchError, match=r"is patched \(sentences, yielding, threads\), and"):
        plan(folder, ALL - {"threads"})


@pytest.mark.parametrize(
    ("break_it", "expected"),
    [
        (lambda kept: (kept / "record.json").write_text("{"), r"record\.json: cannot be read"),
        (
            lambda kept: (kept / "record.json").write_text('{"version": 9}'),
            r"record\.json: was written by a newer Hearth",
        ),
        (
            lambda kept: [
                p.write_text("x") for p in kept.iterdir() if re.match("[0-9a-f]{64}", p.name)
            ],
            "the original of api/src/inference/kokoro_v1.py is lost",
        ),
    ],
)
def test_a_broken_record_is_reported(
    release: Release, break_it: Callable[[Path], object], expected: str
) -> None:
    folder = release("v0.8")
    plan(folder).apply()
    break_it(folder / ".hearth-patch")
    with pytest.raises(PatchError, match=expected):
        take_back(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can change a file's owner")
def test_mode_and_owner_are_kept(release: Release) -> None:
    folder = release("v0.8")
    (folder / ENGINE).chmod(0o440)
    os.chown(folder / ENGINE, 12345, 23456)
    for change in (lambda: plan(folder).apply(), lambda: take_back(folder)):
        change()
        seen = (folder / ENGINE).stat()
        assert (seen.st_mode & 0o7777, seen.st_uid, seen.st_gid) == (0o440, 12345, 23456)


def test_a_change_between_plan_and_apply_is_not_overwritten(release: Release) -> None:
    folder = release("v0.8")
    wanted = plan(folder)
    put(SERVICE, "Speaks.", "Speaks well.")(folder)
    before = contents(folder)
    with pytest.raises(PatchError, match=r"tts_service\.py: changed just now: run this again"):
        wanted.apply()
    assert contents(folder) == before
