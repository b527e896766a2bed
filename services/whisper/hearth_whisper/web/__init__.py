"""The HTTP and WebSocket server: requests, response formats, status and metrics."""
