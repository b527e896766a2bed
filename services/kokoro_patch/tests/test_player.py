"""The patched player in node, with a minimal browser: what it plays, and when."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hearth_kokoro_patch import plan

from .conftest import NAMES, Release

PLAYER = NAMES["AudioService"]

# A browser with nothing but what the player touches; `supported` is what MediaSource says.
BROWSER = """
import { AudioService } from './player.mjs';
const log = [];
class Element {
    constructor(url) { this.src = url; this.readyState = 0; this.heard = {}; }
    addEventListener(name, then) { (this.heard[name] ||= []).push(then); }
    fire(name) { (this.heard[name] || []).forEach((then) => then()); }
    play() { log.push('play ' + this.src); }
}
class Source {
    addEventListener(name) { throw new Error('streams'); }
}
Source.isTypeSupported = (type) => SUPPORTED && type === 'audio/mpeg';
globalThis.Audio = Element;
globalThis.window = globalThis;
if (SUPPORTED !== null) { globalThis.MediaSource = Source; }
URL.createObjectURL = (what) => {
    log.push('url of ' + what.constructor.name + ' ' + what.size);
    return 'blob:1';
};
URL.revokeObjectURL = (url) => log.push('revoked ' + url);
const abort = () => { const e = new Error('gone'); e.name = 'AbortError'; throw e; };
globalThis.fetch = async () => {
    const answer = new Response('sound of mp3');
    if (ABORTED) { answer.blob = abort; }
    return answer;
};
const service = new AudioService();
try {
    const tell = (now, all) => log.push(`${now} of ${all}`);
    const audio = await service.streamAudio('Hello', 'v', 1, tell);
    if (audio) {
        audio.readyState = 4;
        for (const event of ['canplay', 'ended', 'emptied']) { audio.fire(event); }
    }
} catch (error) {
    log.push(error.message);
}
await new Promise((then) => setTimeout(then, 150));
console.log(JSON.stringify({ log, heard: service.heard }));
"""


def played(folder: Path, supported: str, aborted: str = "false") -> Any:
    assert shutil.which("node"), "node is not installed: scripts/test does it"
    (folder / "player.mjs").write_bytes((folder / PLAYER).read_bytes())
    code = BROWSER.replace("SUPPORTED", supported).replace("ABORTED", aborted)
    (folder / "browser.mjs").write_text(code)
    done = subprocess.run(
        ["node", "browser.mjs"], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("shape", ["v0.2.0", "v0.2.3"])
@pytest.mark.parametrize("supported", ["false", "null"], ids=["no mp3", "no MediaSource"])
def test_a_browser_without_mp3_streams_plays_the_whole_file(
    release: Release, shape: str, supported: str
) -> None:
    folder = release(shape)
    assert played(folder, supported)["log"][-1] in ("streams", "MediaSource is not defined")
    plan(folder).apply()
    seen = played(folder, supported)
    assert seen["log"] == ["url of Blob 12", "1 of 1", "play blob:1", "revoked blob:1"]
    assert seen["heard"] == ["complete", "ended", "downloadReady"]


def test_a_browser_with_mp3_streams_works_as_before(release: Release) -> None:
    folder = release("v0.2.0")
    plan(folder).apply()
    assert played(folder, "true")["log"][-1] == "streams"


def test_an_aborted_response_is_not_an_error(release: Release) -> None:
    folder = release("v0.2.0")
    plan(folder).apply()
    assert played(folder, "false", "true") == {"log": [], "heard": []}


def test_without_node_the_player_is_reported_as_unchecked(
    release: Release, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    wanted = plan(release("v0.2.0"))
    assert wanted.unchecked == (PLAYER,)
    assert plan(release("v0.8")).unchecked == (), (
        "without a change of the player, node is not needed"
    )


def test_with_node_the_player_is_checked(release: Release) -> None:
    assert shutil.which("node"), "node is not installed: scripts/test does it"
    assert plan(release("v0.2.0")).unchecked == ()
