"""The gauntlet: what the gate itself is tested by. Attacks that must be refused, each by its own rule, and honest runs
that must not be.

Nothing here drives a load: evidence is written as an honest harness would have recorded it (`honest`), and each attack
tells one lie about it (`cases`). The lying servers (`servers`) speak HTTP; `autotune gauntlet` drives them.
"""
