"""Step `player`: where MediaSource does not support MP3, the web player plays whole files."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from hearth_kokoro_patch.source import PatchError, Source

ANCHOR = "    async setupAudioStream(stream, response, onProgress, estimatedChunks) {\n"
_OWN_TEST = re.compile(r"MediaSource\.isTypeSupported\(\s*(['\"])audio/mpeg\1\s*\)")
_OWN_BLOB = re.compile(r"new Blob\(|\.blob\(\)")
_NODE_S = 30
_FALLBACK = """\
        // Firefox does not support MP3 in MediaSource: wait for the whole response and play it.
        if (!('MediaSource' in window && MediaSource.isTypeSupported('audio/mpeg'))) {
            let whole;
            try {
                whole = await response.blob();
            } catch (error) {
                if (error.name === 'AbortError') {
                    return;
                }
                throw error;
            }
            const url = URL.createObjectURL(whole);
            this.audio = new Audio(url);
            // The event comes when the player releases the audio.
            this.audio.addEventListener('emptied', () => URL.revokeObjectURL(url), { once: true });
            this.audio.addEventListener('ended', () => this.dispatchEvent('ended'));
            this.audio.addEventListener('canplay', () => {
                if (this.shouldAutoplay) {
                    this.play();
                }
            }, { once: true });
            onProgress?.(estimatedChunks, estimatedChunks);
            this.dispatchEvent('complete');
            setTimeout(() => this.dispatchEvent('downloadReady'), 100);
            return;
        }

"""


def fall_back(source: Source) -> str:
    """Return the player's text with the fallback, or as it is where upstream has its own.

    Raises:
        PatchError: there is neither upstream's own test nor our anchor, exactly once.
    """
    if _OWN_TEST.search(source.text):
        if _OWN_BLOB.search(source.text):
            return source.text
        raise PatchError(
            f"{source.path}: MediaSource is checked for audio/mpeg, but no Blob is played "
            "otherwise, so this release is not known (step player)"
        )
    anchor = ANCHOR.replace("\n", source.newline)
    times = source.text.count(anchor)
    if times != 1 or "new MediaSource()" not in source.text:
        raise PatchError(
            f"{source.path}: `{ANCHOR.strip()}` was expected once and found {times} times, so "
            "this release is not known (step player)"
        )
    return source.text.replace(anchor, anchor + _FALLBACK.replace("\n", source.newline))


def node_reads(path: str, content: bytes) -> bool:
    """Return True if node accepts this module, and False without node.

    Raises:
        PatchError: node rejects it or times out.
    """
    node = shutil.which("node")
    if node is None:
        return False
    with tempfile.TemporaryDirectory(prefix="hearth-") as folder:
        # The suffix tells node that this is a module, as the player loads it.
        copy = Path(folder, "player.mjs")
        copy.write_bytes(content)
        try:
            done = subprocess.run(  # noqa: S603 - node from PATH, our own file
                [node, "--check", str(copy)],
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=_NODE_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PatchError(f"{path}: could not be checked: {node}: {error}") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "Error" in line]
        reason = errors[0].strip() if errors else f"exit code {done.returncode}"
        raise PatchError(f"{path}: `node --check` rejects the patched file: {reason}")
    return True
