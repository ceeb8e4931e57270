"""512 common short English words: the vocabulary of every synthetic prompt."""

from __future__ import annotations

__all__ = ["WORDS", "spell"]

_TEXT = """
about actor after again against all along also although and anger angle another answer any apple are area arm around
artist baby back bank bear because become beer before began being best between big bird black blue boat body bone book
both boy brain branch brave bread break bridge bright brother brown brush build busy but butter buy calm came camera
can captain carry case catch cause center certain change chart cheese chest child children church circle class clean
climb close cloud coach coffee cold color come computer cook cool corner cost cotton could country court cousin cry
dance dancer dark daughter day deep depth did dirty doctor done door down draw dream drink drive driver drop dry
during each ear early earth east easy eat edge effect empty energy engine engineer enter even evening ever exam false
family farmer father fear felt few field finger fire first fish flower fly foot for force forest form found four free
fresh friend from fruit full garden gentle get girl glass goat gold good grass gray great green grow guest had hair
happy hard have health hear heart heat heavy height help here himself hold home honest hope horse hot hotel house how
however ice idea interest into iron island its joy judge jump just kind king kitchen knee know language large last
laugh law leader leaf learn least leave leg lemon length lesson letter life lift light like line lion list listen
little long looked loud love machine made make man many map market matter may means meat members men metal might milk
mind money moon more morning most mother mountain mouth move movie much music must narrow neck need neighbor network
never new news north nose not now nurse ocean off often old one only open orange other others our out over own owner
page paint paper path pay peace people person phone picture pilot pink place plan plane planet play player poor power
price prince problem proud pull purple push queen question quick quiet rabbit rain read ready real reason record red
report result rich ride right river road root rough run sad safe said salt same saw secret see seed seemed sell sense
sentence service shape sharp sheep ship short should shoulder silver simple since sing singer sister skin sleep slow
small smile smoke smooth snake snow soft some son sound south space speak speed square star start state states station
stay still stone stop storm story street strong student such sugar summer sun surface swim table take tall teach
teacher test than that the their them then there these they thing things this those thought three through throw thus
ticket tiger time too tooth train travel tree true trust truth turn turned two uncle under use used very victory visit
voice wait wake walk want warm was watch way weak weight well were west wet what wheel when where which while white
who whole wide width will wind window wine winter wise with within without woman wood wool word work worker world
would write writer year years yellow your
"""

WORDS: tuple[str, ...] = tuple(_TEXT.split())
"""Each is one token of the usual byte-pair vocabularies when a space stands before it, so words count as tokens.

512 is 2**9: a word spells nine bits. The order is part of every workload digest; never change it.
"""


def spell(number: int, digits: int) -> list[str]:
    """`number` in base 512 as `digits` words, lowest digit first. Different numbers give different words.

    Raises:
        ValueError: `number` is negative or needs more digits.
    """
    if not 0 <= number < len(WORDS) ** digits:
        raise ValueError(f"expected a number from 0 to {len(WORDS)}**{digits} - 1, found {number}")
    words = []
    for _ in range(digits):
        number, digit = divmod(number, len(WORDS))
        words.append(WORDS[digit])
    return words
