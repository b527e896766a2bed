"""Sound of any kind, as the model hears it: 16 kHz, mono, bounded in seconds and in memory."""
