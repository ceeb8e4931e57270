"""A server that somebody else runs: loaded, watched, and changed by nobody but the owner's own program."""
