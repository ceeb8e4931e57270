"""Playbooks: YAML files that say, per goal, what to look at and what to try. Read by `agents.load_playbook`."""
