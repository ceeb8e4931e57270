"""Formats: one file per kind of log. Each recognises its own and reads it line by line."""
