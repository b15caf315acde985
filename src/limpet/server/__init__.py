"""The same memory over HTTP: a JSON API, MCP, and a page to look at it."""
