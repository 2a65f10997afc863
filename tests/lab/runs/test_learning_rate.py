"""The learning rate around a deficit."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitcycle.lab.runs.learning_rate import LearningRatePolicy
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train
from bitcycle.lab.tasks import task_named


@given(st.data())
def test_a_held_policy_is_that_of_a_training_without_the_held_steps(data):
    total = data.draw(st.integers(2, 400))
    start = data.draw(st.integers(0, total - 1))
    stop = data.draw(st.integers(start, total - 1))
    policy = LearningRatePolicy.of(f"hold@{start}..{stop}", total)
    positions = [policy.position(step) for step in range(total)]
    free = [position for step, position in enumerate(positions) if not policy.held(step)]
    assert free == [(step, total - (stop - start)) for step in range(total - (stop - start))]
    assert all(position[0] == start for step, position in enumerate(positions) if policy.held(step))


@given(st.integers(2, 400).flatmap(lambda total: st.tuples(st.just(total), st.integers(1, total - 1))))
def test_a_restarted_policy_restarts_once(numbers):
    total, at = numbers
    policy = LearningRatePolicy.of(f"restart@{at}", total)
    assert [policy.position(step) for step in range(at, total)] == [(step, total - at) for step in range(total - at)]
    assert [step for step in range(total) if policy.restarts(step)] == [at]


@pytest.mark.parametrize("text", ["hold", "hold@5", "hold@9..3", "hold@0..20", "restart@20", "restart@-1", "pause@3"])
def test_misuse(text):
    with pytest.raises(ValueError, match="learning-rate policy must be|does not fit"):
        LearningRatePolicy.of(text, 20)


def test_the_loop_follows_the_policy(monkeypatch):
    kind = type(task_named("graph").prepare(RunConfig("graph", "static:8", 1)))
    seen = []
    plain = kind.learning_rate

    def noted(self, step, total):
        seen.append((step, total))
        return plain(self, step, total)

    monkeypatch.setattr(kind, "learning_rate", noted)
    train(RunConfig("graph", "static:8", 6, learning_rate="hold@0..2"))
    assert seen == [(0, 4), (0, 4), (0, 4), (1, 4), (2, 4), (3, 4)]


def test_a_restart_forgets_the_optimisers_moments_and_the_plateau(monkeypatch):
    steps = []
    plain = torch.optim.Adam.step

    def noted(self, *args, **keywords):
        done = plain(self, *args, **keywords)
        steps.append(int(next(iter(self.state.values()))["step"]))
        return done

    monkeypatch.setattr(torch.optim.Adam, "step", noted)
    train(RunConfig("graph", "static:8", 5, learning_rate="restart@3"))
    assert steps == [1, 2, 3, 1, 2]
    language = task_named("language").prepare(RunConfig("language", "static:8", 1))
    language.validated(50.0)
    language.validated(60.0)
    assert language.learning_rate(0, 1) == 0.25
    language.restarted()
    assert language.learning_rate(0, 1) == 1.0
