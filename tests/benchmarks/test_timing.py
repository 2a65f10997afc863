import pytest

from benchmarks.speed.timing import time_in_turns


@pytest.mark.parametrize("repeats", [1, 3])
def test_calls_run_in_turns(repeats):
    ran = []
    calls = {name: lambda name=name: ran.append(name) for name in "abc"}
    seconds = time_in_turns(calls, rounds=5, warm_up=2, repeats=repeats)
    assert {name: len(times) for name, times in seconds.items()} == dict.fromkeys("abc", 5)
    in_turns = ran[::repeats]
    rounds = [tuple(in_turns[start : start + 3]) for start in range(0, len(in_turns), 3)]
    assert len(rounds) == 7
    assert {tuple(sorted(each)) for each in rounds} == {("a", "b", "c")}
    assert len(set(rounds)) > 1, "the order changes"
