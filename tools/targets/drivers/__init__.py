"""What each engine does its own way: a driver per engine, and what they have in common."""
