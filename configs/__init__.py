"""Example deployments, shipped with the wheel."""
