"""The HTTP face of the engine: OpenAI's completions and chat, health, metrics, identity, drain."""

from engine.server.main import ServeOptions, serve

__all__ = ["ServeOptions", "serve"]
