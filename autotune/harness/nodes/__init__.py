"""The graph's nodes, one file per stretch of the run: survey, explore, confirm, publish."""
