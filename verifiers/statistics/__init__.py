"""The statistics of acceptance: exact, free of distributions, and of launches, never of requests.

`blocks` holds what was measured, `rank_test` and `blocked` the exact tests, `wager` the evidence that may be looked at
after every block, `look` the rule that stops or goes on, `foresight` what a design can show before it begins.
"""
