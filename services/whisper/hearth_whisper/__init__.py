"""An OpenAI-compatible server that writes down what is said: files, a live stream, satellites."""
