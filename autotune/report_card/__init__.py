"""The agent report card: proposers play scenarios whose right answer is known, on recorded surfaces, and are graded.

Tuning scenarios run the real graph (ledger, verifiers, gate, commit in a throwaway repository) on a replay of recorded
launches; assessment scenarios show a benchmark or an alert and ask whether it can be trusted. See docs/report-card.md.
"""
