"""Quantified sentences over a small lexicon, and what follows from what.

Every sentence says of a region, a conjunction such as "brown dog that moves and does not speak", either that nothing is
in it or that something is:

    all A do B      nothing is A and not B          not all A do B    something is A and not B
    no A do B       nothing is A and B              some A do B       something is A and B

So with S and T the regions of premise and hypothesis:

    nothing in S    entails       nothing in T      if T lies in S
    something in S  entails       something in T    if S lies in T
    nothing in S    contradicts   something in T    if T lies in S, and the other way round

and everything else is neutral. "All dogs run" says nothing where there are no dogs: it does not entail "some dogs run".
The tests check this against all models of up to two individuals, which are enough for two such sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

NOUN_ABOVE = {
    "dogs": "animals",
    "poodles": "dogs",
    "terriers": "dogs",
    "birds": "animals",
    "robins": "birds",
    "crows": "birds",
    "artists": "people",
    "painters": "artists",
    "singers": "artists",
    "doctors": "people",
    "surgeons": "doctors",
    "dentists": "doctors",
}
VERB_ABOVE = {
    "walk": "move",
    "stroll": "walk",
    "run": "move",
    "sprint": "run",
    "talk": "speak",
    "whisper": "talk",
    "sing": "speak",
    "hum": "sing",
}
"""What each word lies in directly; two topics of verbs, moving and speaking, have nothing to do with each other."""
NOUNS = ("animals", "people", *NOUN_ABOVE)
TOPICS = (("move", "walk", "stroll", "run", "sprint"), ("speak", "talk", "whisper", "sing", "hum"))
ADJECTIVES = ("brown", "hungry", "old", "wet")
UNIVERSAL, EXISTENTIAL = ("all", "no"), ("some", "not all")
QUANTIFIERS = (*UNIVERSAL, *EXISTENTIAL)
ENTAILMENT, NEUTRAL, CONTRADICTION = range(3)


class Deed(NamedTuple):
    """To do something, or not to do it."""

    verb: str
    done: bool

    def __str__(self) -> str:
        return self.verb if self.done else f"do not {self.verb}"


@dataclass(frozen=True)
class Region:
    """A noun, perhaps an adjective, and at most one deed of each topic."""

    noun: str
    adjective: str | None
    deeds: tuple[Deed | None, Deed | None]

    def lies_in(self, other: Region) -> bool:
        """Whether all that is in this region must be in the other.

        >>> dogs_that_move = Region("dogs", None, (Deed("move", True), None))
        >>> Region("poodles", "wet", (Deed("run", True), None)).lies_in(dogs_that_move)
        True
        >>> dogs_that_move.lies_in(Region("dogs", None, (Deed("run", True), None)))
        False
        """
        return (
            is_a(self.noun, other.noun, NOUN_ABOVE)
            and other.adjective in (None, self.adjective)
            and all(_implies(mine, theirs) for mine, theirs in zip(self.deeds, other.deeds, strict=True))
        )


@dataclass(frozen=True)
class Sentence:
    """A quantifier, the noun phrase, and the topic of the deed that is said of it; the other deed is a clause.

    >>> str(Sentence("all", "dogs", "wet", (Deed("run", False), Deed("hum", True)), said=1))
    'all wet dogs that do not run hum'
    """

    quantifier: str
    noun: str
    adjective: str | None
    deeds: tuple[Deed | None, Deed | None]
    said: int

    def __str__(self) -> str:
        clause, deed = self.deeds[1 - self.said], self.deeds[self.said]
        phrase = (self.quantifier, self.adjective or "", self.noun, f"that {clause}" if clause else "", str(deed))
        return " ".join(part for part in phrase if part)

    @property
    def universal(self) -> bool:
        return self.quantifier in UNIVERSAL

    @property
    def region(self) -> Region:
        """Where the sentence says that nothing or something is."""
        return Region(self.noun, self.adjective, _turned(self.deeds, self.said, self.quantifier))


def sentence_about(region: Region, quantifier: str, said: int) -> Sentence:
    """The sentence with this quantifier whose region this is."""
    return Sentence(quantifier, region.noun, region.adjective, _turned(region.deeds, said, quantifier), said)


def relation(premise: Sentence, hypothesis: Sentence) -> int:
    """The label of the pair, by the rules above.

    >>> p = Sentence("no", "dogs", None, (Deed("run", True), None), said=0)
    >>> h = Sentence("all", "poodles", None, (Deed("sprint", False), None), said=0)
    >>> str(p), str(h), relation(p, h) == ENTAILMENT
    ('no dogs run', 'all poodles do not sprint', True)
    """
    s, t = premise.region, hypothesis.region
    holds = t.lies_in(s) if premise.universal else s.lies_in(t)
    if not holds:
        return NEUTRAL
    return ENTAILMENT if premise.universal == hypothesis.universal else CONTRADICTION


def is_a(word: str, kind: str, above: dict[str, str]) -> bool:
    """Whether the word is the kind or lies below it."""
    return word == kind or (word in above and is_a(above[word], kind, above))


def _implies(mine: Deed | None, theirs: Deed | None) -> bool:
    if theirs is None:
        return True
    if mine is None or mine.done != theirs.done:
        return False
    lower, upper = (mine, theirs) if mine.done else (theirs, mine)
    return is_a(lower.verb, upper.verb, VERB_ABOVE)


def _turned(deeds: tuple[Deed | None, Deed | None], said: int, quantifier: str) -> tuple[Deed | None, Deed | None]:
    """The deeds with the one that is said negated, where the quantifier speaks of what does not do it."""
    deed = deeds[said]
    if deed is None:
        raise ValueError("a sentence says a deed of its subject")
    if quantifier in ("all", "not all"):
        deed = deed._replace(done=not deed.done)
    return (deed, deeds[1]) if said == 0 else (deeds[0], deed)
