"""Who proposes. A proposer sees a `View` and answers with one typed `Action`; it measures and decides nothing."""

from agents.actions import Action, ActionError, Finish, Inspect, Measure, Propose, Search, action_schema, parse_action
from agents.expert import Expert
from agents.playbook import Playbook, load_playbook
from agents.proposer import Proposer, ProposerFailed, Turn, Usage
from agents.view import TrialView, View

__all__ = [
    "Action",
    "ActionError",
    "Expert",
    "Finish",
    "Inspect",
    "Measure",
    "Playbook",
    "Propose",
    "Proposer",
    "ProposerFailed",
    "Search",
    "TrialView",
    "Turn",
    "Usage",
    "View",
    "action_schema",
    "load_playbook",
    "parse_action",
]
