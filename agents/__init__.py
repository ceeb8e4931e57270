"""Who proposes. A proposer sees a `View` and answers with one typed `Action`; it measures and decides nothing."""

from agents.action_schema import action_schema
from agents.actions import Action, ActionError, Finish, Inspect, Measure, Profile, Propose, Search, Weigh, parse_action
from agents.expert import Expert
from agents.playbook import Playbook, load_playbook
from agents.proposer import Proposer, ProposerFailed, Turn
from agents.usage import Allowance, Usage
from agents.view import HypothesisView, TrialView, View

__all__ = [
    "Action",
    "ActionError",
    "Allowance",
    "Expert",
    "Finish",
    "HypothesisView",
    "Inspect",
    "Measure",
    "Playbook",
    "Profile",
    "Propose",
    "Proposer",
    "ProposerFailed",
    "Search",
    "TrialView",
    "Turn",
    "Usage",
    "View",
    "Weigh",
    "action_schema",
    "load_playbook",
    "parse_action",
]
