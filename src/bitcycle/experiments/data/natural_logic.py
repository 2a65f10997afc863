"""Sentence pairs with labels out of natural logic: three balanced classes, and no way around word order."""

from __future__ import annotations

import random

from bitcycle.experiments.data.entailment import Pair, PairData
from bitcycle.experiments.data.pair_files import THREE
from bitcycle.experiments.data.quantified import (
    ADJECTIVES,
    CONTRADICTION,
    ENTAILMENT,
    EXISTENTIAL,
    NEUTRAL,
    NOUN_ABOVE,
    NOUNS,
    QUANTIFIERS,
    TOPICS,
    UNIVERSAL,
    VERB_ABOVE,
    Deed,
    Region,
    relation,
    sentence_about,
)

_SMALLEST, _LARGEST = 60, 20_000
_ALIKE = [(p, h) for side in (UNIVERSAL, EXISTENTIAL) for p in side for h in side]
_UNLIKE = [(p, h) for p in QUANTIFIERS for h in QUANTIFIERS if (p, h) not in _ALIKE]
# With every quantifier each label is equally frequent, so that the quantifier of one sentence tells nothing.
_PLAN = {ENTAILMENT: _ALIKE, NEUTRAL: _ALIKE + _UNLIKE, CONTRADICTION: _UNLIKE}


def natural_logic(count: int = 7500, seed: int = 0) -> PairData:
    """Pairs of quantified sentences, a third each of entailment, neutral and contradiction; 80, 10 and 10 % of `count`.

    No sentence of one part occurs in another. What is neutral differs from what is not by the direction of a change
    (dogs for animals, or animals for dogs), not by its words.

    >>> data = natural_logic(count=60)
    >>> len(data.train), len(data.validation), len(data.test), data.labels
    (48, 6, 6, ('entailment', 'neutral', 'contradiction'))
    >>> data.train[0].premise, data.train[0].hypothesis, data.labels[data.train[0].label]
    ('not all brown robins whisper', 'not all brown robins that do not whisper run', 'neutral')
    """
    if not _SMALLEST <= count <= _LARGEST:
        raise ValueError(f"count is a number of pairs from {_SMALLEST} to {_LARGEST}, not {count}")
    rng = random.Random(seed)
    elsewhere: set[str] = set()
    parts: list[list[Pair]] = []
    for size in (count // 10, count // 10, count - 2 * (count // 10)):  # the small parts first, while all is free
        parts.append(_part(size, elsewhere, rng))
        elsewhere |= {sentence for pair in parts[-1] for sentence in pair[:2]}
    test, validation, train = parts
    return PairData("natural-logic", THREE, train, validation, test)


def _part(size: int, elsewhere: set[str], rng: random.Random) -> list[Pair]:
    """Pairs without a sentence that occurs elsewhere, the labels in turn, then shuffled."""
    pairs: dict[Pair, None] = {}
    while len(pairs) < size:
        label = len(pairs) % 3
        quantifiers = _PLAN[label][len(pairs) // 3 % len(_PLAN[label])]
        pair = _pair(label, quantifiers, rng)
        if pair.premise not in elsewhere and pair.hypothesis not in elsewhere and pair.premise != pair.hypothesis:
            pairs[pair] = None
    shuffled = list(pairs)
    rng.shuffle(shuffled)
    return shuffled


def _pair(label: int, quantifiers: tuple[str, str], rng: random.Random) -> Pair:
    """A pair with this label and these quantifiers, by trial."""
    while True:
        region = _region(rng)
        changed = _changed(region, rng)
        premise, hypothesis = (
            sentence_about(about, quantifier, rng.choice([topic for topic in (0, 1) if about.deeds[topic]]))
            for about, quantifier in zip((region, changed), quantifiers, strict=True)
        )
        if relation(premise, hypothesis) == label:
            return Pair(str(premise), str(hypothesis), label)


def _region(rng: random.Random) -> Region:
    deeds = [Deed(rng.choice(verbs), rng.random() < 0.5) for verbs in TOPICS]
    left_out = rng.randrange(4)  # half of the regions have a deed of one topic alone
    first, second = (None if topic == left_out else deed for topic, deed in enumerate(deeds))
    return Region(rng.choice(NOUNS), rng.choice((None, None, *ADJECTIVES)), (first, second))


def _changed(region: Region, rng: random.Random) -> Region:
    """The region made narrower or wider in some places; now and then both, or turned into something else."""
    narrower = rng.random() < 0.5
    moves = [narrower if rng.random() < 0.9 else not narrower for _ in range(4)]
    stays = [rng.random() < 0.4 for _ in range(4)]
    noun = region.noun if stays[0] else _moved(region.noun, NOUNS, NOUN_ABOVE, moves[0], rng)
    adjective = region.adjective
    if not stays[1]:
        adjective = (adjective or rng.choice(ADJECTIVES)) if moves[1] else None
    first, second = (
        deed if stays[2 + topic] else _moved_deed(deed, topic, moves[2 + topic], rng)
        for topic, deed in enumerate(region.deeds)
    )
    if first is None and second is None:
        first, second = region.deeds
    return Region(noun, adjective, (first, second))


def _moved_deed(deed: Deed | None, topic: int, narrower: bool, rng: random.Random) -> Deed | None:
    if deed is None:
        return Deed(rng.choice(TOPICS[topic]), rng.random() < 0.5) if narrower else None
    if rng.random() < 0.25:
        return deed if narrower else None
    # Not to walk is wider than not to move.
    return Deed(_moved(deed.verb, TOPICS[topic], VERB_ABOVE, narrower == deed.done, rng), deed.done)


def _moved(word: str, words: tuple[str, ...], above: dict[str, str], down: bool, rng: random.Random) -> str:
    """A word one step below or above; the word itself at the end of the line."""
    steps = [other for other in words if above.get(other) == word] if down else [above.get(word, word)]
    return rng.choice(steps or [word])
