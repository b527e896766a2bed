"""The broker: what agents may do in the house, over MCP and HTTP, by key and with an audit log."""
