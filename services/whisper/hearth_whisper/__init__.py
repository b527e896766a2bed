"""An OpenAI-compatible speech-to-text server: files, live streams and satellites."""
