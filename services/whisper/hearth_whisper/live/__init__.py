"""Live transcription: voice activity detection, endpointing, and the session of one stream."""
