"""Generated sentence pairs for natural language inference, labelled by natural logic.

Every sentence states that a region, a conjunction such as "brown dog that moves and does not speak", is empty or is not
empty:

    all A do B      "A and not B" is empty          not all A do B    "A and not B" is not empty
    no A do B       "A and B" is empty              some A do B       "A and B" is not empty

With the regions S of the premise and T of the hypothesis:

    S is empty      entails       T is empty        if T is a subset of S
    S is not empty  entails       T is not empty    if S is a subset of T
    S is empty      contradicts   T is not empty    if T is a subset of S, and vice versa

All other pairs are neutral. "All dogs run" is true if there are no dogs, so it does not entail "some dogs run". The
tests check these rules against all models with up to two individuals, which are sufficient for two such sentences.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

from bitcycle.lab.data.sentence_pairs import THREE_WAY, Pair, PairData

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
"""The direct superordinate of each word. The two topics of verbs, moving and speaking, are unrelated."""
NOUNS = ("animals", "people", *NOUN_ABOVE)
TOPICS = (("move", "walk", "stroll", "run", "sprint"), ("speak", "talk", "whisper", "sing", "hum"))
ADJECTIVES = ("brown", "hungry", "old", "wet")
UNIVERSAL, EXISTENTIAL = ("all", "no"), ("some", "not all")
QUANTIFIERS = (*UNIVERSAL, *EXISTENTIAL)
ENTAILMENT, NEUTRAL, CONTRADICTION = range(3)

_SAME_KIND = [(p, h) for side in (UNIVERSAL, EXISTENTIAL) for p in side for h in side]
_DIFFERENT_KIND = [(p, h) for p in QUANTIFIERS for h in QUANTIFIERS if (p, h) not in _SAME_KIND]
# Every label is equally frequent with every quantifier: the quantifier of one sentence does not predict the label.
_QUANTIFIER_PAIRS = {ENTAILMENT: _SAME_KIND, NEUTRAL: _SAME_KIND + _DIFFERENT_KIND, CONTRADICTION: _DIFFERENT_KIND}


def natural_logic(count: int = 7500, seed: int = 0) -> PairData:
    """Generate pairs of quantified sentences with three equally frequent labels.

    The splits have 80 %, 10 % and 10 % of the pairs, and no sentence occurs in two splits. Neutral pairs differ
    from the others by the direction of a replacement (dogs for animals, or animals for dogs), not by their words.

    Args:
        count: Total number of pairs, from 60 to 20,000.
        seed: Random seed.

    >>> data = natural_logic(count=60)
    >>> len(data.train), len(data.validation), len(data.test), data.labels
    (48, 6, 6, ('entailment', 'neutral', 'contradiction'))
    >>> data.train[0].premise, data.train[0].hypothesis, data.labels[data.train[0].label]
    ('not all brown robins whisper', 'not all brown robins that do not whisper run', 'neutral')
    """
    rng = random.Random(seed)
    used: set[str] = set()
    splits: list[list[Pair]] = []
    for size in (count // 10, count // 10, count - 2 * (count // 10)):  # small ones first: nothing is used yet
        splits.append(_generate(size, used, rng))
        used |= {sentence for pair in splits[-1] for sentence in pair[:2]}
    test, validation, train = splits
    return PairData("natural-logic", THREE_WAY, train, validation, test)


def _generate(size: int, used: set[str], rng: random.Random) -> list[Pair]:
    """Generate pairs of unused sentences, with each label in turn, and shuffle them."""
    pairs: dict[Pair, None] = {}
    while len(pairs) < size:
        label = len(pairs) % 3
        quantifiers = _QUANTIFIER_PAIRS[label][len(pairs) // 3 % len(_QUANTIFIER_PAIRS[label])]
        pair = _pair(label, quantifiers, rng)
        if pair.premise not in used and pair.hypothesis not in used and pair.premise != pair.hypothesis:
            pairs[pair] = None
    shuffled = list(pairs)
    rng.shuffle(shuffled)
    return shuffled


def _pair(label: int, quantifiers: tuple[str, str], rng: random.Random) -> Pair:
    """Generate a pair with this label and these quantifiers, by rejection."""
    while True:
        region = _region(rng)
        changed = _changed(region, rng)
        premise, hypothesis = (
            Sentence(quantifier, subject, rng.choice([topic for topic in (0, 1) if subject.phrases[topic]]))
            for subject, quantifier in zip((region, changed), quantifiers, strict=True)
        )
        if relation(premise, hypothesis) == label:
            return Pair(str(premise), str(hypothesis), label)


def _region(rng: random.Random) -> Region:
    phrases = [VerbPhrase(rng.choice(verbs), rng.random() < 0.5) for verbs in TOPICS]
    left_out = rng.randrange(4)  # half of the regions have a verb phrase of only one topic
    first, second = (None if topic == left_out else phrase for topic, phrase in enumerate(phrases))
    return Region(rng.choice(NOUNS), rng.choice((None, None, *ADJECTIVES)), (first, second))


def _changed(region: Region, rng: random.Random) -> Region:
    """Return a region that is narrower or wider in some components, and sometimes unrelated."""
    narrower = rng.random() < 0.5
    moves = [narrower if rng.random() < 0.9 else not narrower for _ in range(4)]
    stays = [rng.random() < 0.4 for _ in range(4)]
    noun = region.noun if stays[0] else _moved(region.noun, NOUNS, NOUN_ABOVE, moves[0], rng)
    adjective = region.adjective
    if not stays[1]:
        adjective = (adjective or rng.choice(ADJECTIVES)) if moves[1] else None
    first, second = (
        phrase if stays[2 + topic] else _moved_phrase(phrase, topic, moves[2 + topic], rng)
        for topic, phrase in enumerate(region.phrases)
    )
    if first is None and second is None:
        first, second = region.phrases
    return Region(noun, adjective, (first, second))


def _moved_phrase(phrase: VerbPhrase | None, topic: int, narrower: bool, rng: random.Random) -> VerbPhrase | None:
    if phrase is None:
        return VerbPhrase(rng.choice(TOPICS[topic]), rng.random() < 0.5) if narrower else None
    if rng.random() < 0.25:
        return phrase if narrower else None
    # Negation reverses the direction: "do not walk" is wider than "do not move".
    verb = _moved(phrase.verb, TOPICS[topic], VERB_ABOVE, narrower == phrase.affirmed, rng)
    return VerbPhrase(verb, phrase.affirmed)


def _moved(word: str, words: tuple[str, ...], above: dict[str, str], down: bool, rng: random.Random) -> str:
    """Return a word one level below or above; the word itself if there is none."""
    steps = [other for other in words if above.get(other) == word] if down else [above.get(word, word)]
    return rng.choice(steps or [word])


class VerbPhrase(NamedTuple):
    """A verb, affirmed or negated."""

    verb: str
    affirmed: bool

    def __str__(self) -> str:
        return self.verb if self.affirmed else f"do not {self.verb}"


@dataclass(frozen=True)
class Region:
    """The intersection of a noun, an optional adjective, and at most one verb phrase per topic."""

    noun: str
    adjective: str | None
    phrases: tuple[VerbPhrase | None, VerbPhrase | None]

    def is_subset_of(self, other: Region) -> bool:
        """Return whether everything in this region must be in the other.

        >>> dogs_that_move = Region("dogs", None, (VerbPhrase("move", True), None))
        >>> Region("poodles", "wet", (VerbPhrase("run", True), None)).is_subset_of(dogs_that_move)
        True
        >>> dogs_that_move.is_subset_of(Region("dogs", None, (VerbPhrase("run", True), None)))
        False
        """
        return (
            is_a(self.noun, other.noun, NOUN_ABOVE)
            and other.adjective in (None, self.adjective)
            and all(_implies(mine, theirs) for mine, theirs in zip(self.phrases, other.phrases, strict=True))
        )


@dataclass(frozen=True)
class Sentence:
    """A quantified sentence, which states that a region is empty or not empty.

    One of the two verb phrases is the predicate, the other one a relative clause. "All" and "not all" are about those
    to which the predicate does not apply, so that the region has its negation.

    >>> region = Region("dogs", "wet", (VerbPhrase("run", False), VerbPhrase("hum", False)))
    >>> str(Sentence("all", region, main=1)), str(Sentence("no", region, main=1))
    ('all wet dogs that do not run hum', 'no wet dogs that do not run do not hum')
    """

    quantifier: str
    region: Region
    main: int
    """The topic of the predicate, 0 or 1."""

    def __str__(self) -> str:
        clause, predicate = self.region.phrases[1 - self.main], self.region.phrases[self.main]
        if predicate is None:
            raise ValueError(f"a sentence needs a predicate: the region has no verb phrase of topic {self.main}")
        if self.quantifier in ("all", "not all"):
            predicate = predicate._replace(affirmed=not predicate.affirmed)
        subject = (self.quantifier, self.region.adjective or "", self.region.noun, f"that {clause}" if clause else "")
        return " ".join(part for part in (*subject, str(predicate)) if part)

    @property
    def universal(self) -> bool:
        return self.quantifier in UNIVERSAL


def relation(premise: Sentence, hypothesis: Sentence) -> int:
    """Return the label of a pair, by the rules above.

    >>> p = Sentence("no", Region("dogs", None, (VerbPhrase("run", True), None)), main=0)
    >>> h = Sentence("all", Region("poodles", None, (VerbPhrase("sprint", True), None)), main=0)
    >>> str(p), str(h), relation(p, h) == ENTAILMENT
    ('no dogs run', 'all poodles do not sprint', True)
    """
    s, t = premise.region, hypothesis.region
    holds = t.is_subset_of(s) if premise.universal else s.is_subset_of(t)
    if not holds:
        return NEUTRAL
    return ENTAILMENT if premise.universal == hypothesis.universal else CONTRADICTION


def is_a(word: str, kind: str, above: dict[str, str]) -> bool:
    """Return whether a word is equal to or below a kind."""
    return word == kind or (word in above and is_a(above[word], kind, above))


def _implies(mine: VerbPhrase | None, theirs: VerbPhrase | None) -> bool:
    if theirs is None:
        return True
    if mine is None or mine.affirmed != theirs.affirmed:
        return False
    lower, upper = (mine, theirs) if mine.affirmed else (theirs, mine)
    return is_a(lower.verb, upper.verb, VERB_ABOVE)
