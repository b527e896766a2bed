"""From text to the phonemes that Kokoro knows."""
