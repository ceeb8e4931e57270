"""What is wielded: targets, measuring, search, evals, the ledger and the repository.

Tools act when the harness tells them to; they never decide. They know the bundled engine only through
`tools.targets.bundled`.
"""
