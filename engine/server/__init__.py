"""The HTTP face of the engine: OpenAI's completions and chat, health, metrics, identity, drain.

The server and the engine are two processes, so nothing is imported here that only one of them needs.
"""
