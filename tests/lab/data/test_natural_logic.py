"""The natural-logic pairs: sound labels, balance, disjoint parts, and no way around word order."""

import random
from collections import Counter
from itertools import combinations_with_replacement, product

import pytest
from scipy.sparse import hstack
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from bitcycle.lab.data.natural_logic import (
    CONTRADICTION,
    ENTAILMENT,
    NEUTRAL,
    NOUN_ABOVE,
    QUANTIFIERS,
    VERB_ABOVE,
    Sentence,
    _changed,
    _region,
    natural_logic,
    relation,
)

ABOVE = NOUN_ABOVE | VERB_ABOVE


@pytest.fixture(scope="module")
def data():
    return natural_logic()


# Soundness, against all models of up to two individuals


def individuals(words):
    """Every way to have or not to have these words: who has one has all above it, as far as they are in play."""
    for has in product((False, True), repeat=len(words)):
        one = {word for word, true in zip(words, has, strict=True) if true}
        if all(upper not in words or upper in one for word in one for upper in uppers(word)):
            yield one


def uppers(word):
    while word in ABOVE:
        word = ABOVE[word]
        yield word


def holds(text, model):
    """The truth of a sentence in a model, read off its words alone."""
    words = text.removeprefix("not ").split()
    quantifier = ("not " if text.startswith("not ") else "") + words.pop(0)
    subject = words[: -3 if words[-2] == "not" else -1]
    predicate = words[len(subject) :]
    phrase, _, clause = " ".join(subject).partition(" that ")
    members = [one for one in model if set(phrase.split()) <= one and (not clause or does(clause.split(), one))]
    doing = [does(predicate, one) for one in members]
    return {"all": all(doing), "no": not any(doing), "some": any(doing), "not all": not all(doing)}[quantifier]


def does(deed, one):
    return (deed[-1] in one) != ("not" in deed)


def label_by_models(premise, hypothesis):
    words = sorted({*premise.split(), *hypothesis.split()} - {"all", "no", "some", "not", "do", "that"})
    kinds = list(individuals(words))
    models = [(), *((one,) for one in kinds), *combinations_with_replacement(kinds, 2)]
    outcomes = {holds(hypothesis, model) for model in models if holds(premise, model)}
    assert outcomes, "a premise is never contradictory in itself"
    return {(True,): ENTAILMENT, (False,): CONTRADICTION}.get(tuple(outcomes), NEUTRAL)


@pytest.mark.slow
def test_labels_are_those_of_all_models():
    rng = random.Random(0)
    seen = Counter()
    for number in range(480):
        region = _region(rng)
        about = (region, _region(rng) if number % 4 == 0 else _changed(region, rng))
        quantifiers = QUANTIFIERS[number % 4], QUANTIFIERS[number // 4 % 4]
        premise, hypothesis = (
            Sentence(quantifier, part, next(topic for topic in (0, 1) if part.phrases[topic]))
            for part, quantifier in zip(about, quantifiers, strict=True)
        )
        label = relation(premise, hypothesis)
        assert label == label_by_models(str(premise), str(hypothesis)), (str(premise), str(hypothesis))
        seen[label] += 1
    assert min(seen[label] for label in range(3)) > 50


# The laws of the data


def test_size_and_balance(data):
    assert [len(part) for part in (data.train, data.validation, data.test)] == [6000, 750, 750]
    for part in (data.train, data.validation, data.test):
        assert set(Counter(pair.label for pair in part).values()) == {len(part) // 3}
        assert len(set(part)) == len(part)


def test_parts_share_no_sentence(data):
    train, validation, test = (
        {sentence for pair in part for sentence in pair[:2]} for part in (data.train, data.validation, data.test)
    )
    assert not train & test
    assert not train & validation
    assert not validation & test
    known = {word for sentence in train for word in sentence.split()}
    assert all(word in known for sentence in test for word in sentence.split())


@pytest.mark.parametrize(
    ("texts", "longest"),
    [
        (lambda pair: [pair.premise, pair.hypothesis], 1),
        (lambda pair: [f"{pair.premise} {pair.hypothesis}"], 1),
        (lambda pair: [pair.hypothesis], 2),
    ],
    ids=["apart", "together", "the hypothesis alone"],
)
def test_a_bag_of_words_fails(data, texts, longest):
    def columns(pairs):
        return zip(*(texts(pair) for pair in pairs), strict=True)

    bags = [CountVectorizer(ngram_range=(1, longest)).fit(column) for column in columns(data.train)]

    def features(pairs):
        return hstack([bag.transform(column) for bag, column in zip(bags, columns(pairs), strict=True)])

    model = LogisticRegression(max_iter=2000).fit(features(data.train), [pair.label for pair in data.train])
    assert model.score(features(data.test), [pair.label for pair in data.test]) < 0.45
