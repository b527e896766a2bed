"""From the bytes of an answer to the sound that a listener has, format by format."""
