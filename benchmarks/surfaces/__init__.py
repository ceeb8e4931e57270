"""Recorded surfaces: engines measured once over a dense grid of configs, so that searches can be compared in seconds.

`scenario.py` says what was sent and what counts, `space.py` and `peers.py` which configs were launched; `record.py` and
`record_peer.py` launch them, `quality.py` asks what lossy ones lose. `pack.py` and `pack_replay.py` make the files of
`benchmarks/data/surfaces`; `table.py` reads them, with `truth.py` for what a config is really worth, and `headroom.py`
prints what there is to win.
"""
