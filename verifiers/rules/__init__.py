"""One question a file: each holds `RULE`, its stable id, and `verify`, a pure function from evidence to a verdict.

They stand in folders by what they ask about; each folder's `RULES` says at which stages, and `docs/verifying.md` has
the whole list.
"""
