"""For the whole suite: no deadlines, and Ctrl-C works in what the tests start.

A shell that starts a command in the background makes it ignore SIGINT, and children inherit that; with a handler of our
own in place they start with the default again.
"""

import signal

from hypothesis import settings

signal.signal(signal.SIGINT, signal.default_int_handler)

# Timing is never asserted absolutely: a busy machine is no fault of the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
