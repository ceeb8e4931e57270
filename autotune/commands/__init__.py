"""Commands: one verb of the command line a file. Parsing, one call, one exit; what they call is imported inside."""
