"""Servers that speak the OpenAI API, /metrics and /server_info over real HTTP: one that is honest, and those that lie.

No model is behind them: what they say follows from the prompt, and how long they take from how they were set up. They
run in a thread of this process on the loopback address. Whoever wants them measured drives them; nothing here does.
"""

from verifiers.gauntlet.servers.engine import Engine, Setup
from verifiers.gauntlet.servers.host import Host
from verifiers.gauntlet.servers.liars import LIARS, Liar

__all__ = ["LIARS", "Engine", "Host", "Liar", "Setup"]
