"""Step `player`: the web player asks what the browser can, and plays whole files where it must."""

from __future__ import annotations

import re

from hearth_kokoro_patch.errors import PatchError
from hearth_kokoro_patch.source import Source

ANCHOR = "    async setupAudioStream(stream, response, onProgress, estimatedChunks) {\n"
_OWN_TEST = re.compile(r"MediaSource\.isTypeSupported\(\s*(['\"])audio/mpeg\1\s*\)")
_OWN_BLOB = re.compile(r"new Blob\(|\.blob\(\)")
_FALLBACK = """\
        // Firefox takes no mp3 in MediaSource: there the whole answer is awaited and played.
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
            // It is emptied when the player lets go of it.
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
            f"{source.path}: MediaSource is asked about audio/mpeg, but no Blob was found that is "
            "played otherwise, so this release is not known (step player)"
        )
    anchor = ANCHOR.replace("\n", source.newline)
    times = source.text.count(anchor)
    if times != 1 or "new MediaSource()" not in source.text:
        raise PatchError(
            f"{source.path}: `{ANCHOR.strip()}` was looked for once and found {times} times, so "
            "this release is not known (step player)"
        )
    return source.text.replace(anchor, anchor + _FALLBACK.replace("\n", source.newline))
