"""The statistics of acceptance: exact, free of distributions, and of launches, never of requests."""
