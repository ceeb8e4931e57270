"""Recorded surfaces: engines measured once over a dense grid of configs, so that searches can be compared in seconds.

`scenario.py` says what was sent and what counts, `space.py` which configs were launched, `record.py` and
`record_peer.py` launch them, `pack.py` makes the files of `benchmarks/data/surfaces`, `table.py` reads them.
"""
