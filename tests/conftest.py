"""For the whole suite: Ctrl-C works in what the tests start.

A shell that starts a command in the background makes it ignore SIGINT, and children inherit that; with a handler of our
own in place they start with the default again.
"""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
