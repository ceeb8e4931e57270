"""The held-out passages: texts of many kinds, written for this purpose, so that no model was trained on them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["PASSAGES", "held_out"]

PASSAGES: Mapping[str, str] = MappingProxyType(
    {
        "harbour": "The ferry to Brannoy had been late every morning that week, and nobody in the harbour office could "
        "say why. Old Tormod blamed the new pilot, the pilot blamed the tide tables, and the tide tables, printed in "
        "a town four hundred kilometres inland, blamed nobody at all. On Friday the captain simply left ten minutes "
        "early.",
        "bread": "Mix 500 g of flour with 350 g of lukewarm water and leave it to stand for half an hour. Add 10 g of "
        "salt and 3 g of dry yeast, knead for eight minutes, and let the dough rise until it has doubled. Shape it, "
        "score the top with a sharp knife, and bake it at 230 degrees for about 40 minutes.",
        "code": "def moving_average(values, width):\n    if width < 1:\n        raise ValueError('width must be at "
        "least one')\n    total = sum(values[:width])\n    averages = [total / width]\n    for old, new in zip(values, "
        "values[width:]):\n        total += new - old\n        averages.append(total / width)\n    return averages\n",
        "letter": "Dear Ms Okafor, thank you for your letter of 3 March. We are sorry that the second parcel arrived "
        "damaged. A replacement was sent today by express and should reach you before the weekend. Please keep the "
        "broken lamp until our driver has collected it; you will not be charged for either delivery.",
        "physics": "When a spinning skater pulls in her arms, no outside force turns her faster, yet she does turn "
        "faster. Her angular momentum stays the same, and since her mass now lies closer to the axis, the same "
        "momentum means more turns per second. The energy for this comes from her muscles, which work against the "
        "pull outwards.",
        "minutes": "Present: Adler, Bos, Chandra, Diaz. Apologies: Ekwueme. 1. The minutes of 12 May were approved. "
        "2. Bos reported that the roof needs 14 new tiles; the cost is estimated at 620 euros. 3. It was agreed to "
        "move the summer party to the second Saturday in August. 4. Next meeting: 9 June, 19:30.",
        "dialogue": '"You said the blue door," Mina whispered. "I said the new door," answered Jasper. They looked at '
        "the door, which was neither blue nor new, and from behind it came, quite clearly, the sound of somebody "
        'tuning a violin very badly. "Well," said Mina, "at least it isn\'t the dog."',
        "law": "The tenant shall keep the premises in good repair and shall not alter them without the written consent "
        "of the landlord. Either party may end this agreement by notice in writing of not less than three months, "
        "taking effect at the end of a calendar quarter. Sums due under clause 7 remain payable after that date.",
        "history": "In the drought of the third summer the lower mill stood still for ninety days. The miller's "
        "accounts, which survive in the parish chest, show no income between June and September, and then, in a "
        "different hand, the purchase of eleven sheep. Nothing in the accounts explains the change of trade.",
        "table": "| station | January | April | July | October |\n| --- | --- | --- | --- | --- |\n| Hill Farm | "
        "-3.1 | 6.4 | 17.9 | 8.2 |\n| Old Bridge | -1.0 | 7.7 | 19.3 | 9.5 |\n| Lighthouse | 2.6 | 6.9 | 15.2 | "
        "10.8 |\nThe lighthouse has the mildest winter and the coolest summer of the three.",
    }
)
"""By name. Each is short enough for a context of 512 tokens even where a token is hardly more than a letter."""

_LONG_FROM_TOKENS = 1024


def held_out(context_tokens: int) -> Mapping[str, str]:
    """The passages that fit a context, by name: where it is 1024 tokens or more, also all of them in a row.

    What is wrong with positions, as another base of the rotary embedding, shows only over some hundred tokens.
    """
    if context_tokens < _LONG_FROM_TOKENS:
        return PASSAGES
    return {**PASSAGES, "all": "\n\n".join(PASSAGES.values())}
