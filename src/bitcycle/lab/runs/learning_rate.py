"""Learning-rate policies: how the learning-rate schedule of a task behaves around a deficit.

| policy         | the learning rate                                                                              |
|----------------|------------------------------------------------------------------------------------------------|
| (empty)        | follows the task's schedule over the whole training                                            |
| ``hold@A..B``  | stays constant from step A to step B and then continues, so that its schedule is the one of a  |
|                | training without these steps. The paper holds it through a deficit                             |
| ``restart@B``  | follows its schedule for B steps; at step B it restarts from the beginning for the remaining   |
|                | steps and the optimiser's state is cleared. This is the control for a claim of lasting damage  |
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from bitcycle._support.text import short_repr

_POLICY = re.compile(r"hold@(?P<start>[0-9]{1,18})\.\.(?P<stop>[0-9]{1,18})|restart@(?P<restart>[0-9]{1,18})")


@dataclass(frozen=True)
class LearningRatePolicy:
    """Maps each training step to a position in the task's learning-rate schedule.

    Example:
        >>> hold = LearningRatePolicy.of("hold@0..100", total=300)
        >>> hold.position(50), hold.position(150), hold.held(50), hold.held(150)
        ((0, 200), (50, 200), True, False)
        >>> restart = LearningRatePolicy.of("restart@100", total=300)
        >>> restart.position(99), restart.position(100), restart.restarts(100)
        ((99, 300), (0, 200), True)
    """

    total: int
    """Steps of the training."""
    start: int = 0
    """The first step that is held."""
    stop: int = 0
    """The step after the last one that is held."""
    restart: int = 0
    """The step at which the schedule restarts; 0 = it does not."""

    @classmethod
    def of(cls, text: str, total: int) -> LearningRatePolicy:
        """Parse a policy.

        Args:
            text: ``""``, ``hold@A..B`` or ``restart@B``, in steps.
            total: Steps of the training.

        Raises:
            ValueError: If the text is none of these, or its steps are outside the training.
        """
        if not text:
            return cls(total)
        match = _POLICY.fullmatch(text)
        if match is None:
            raise ValueError(f"a learning-rate policy must be hold@A..B or restart@B, in steps, got {short_repr(text)}")
        policy = cls(total, **{name: int(step) for name, step in match.groupdict(0).items()})
        if policy.start > policy.stop or max(policy.stop, policy.restart) >= total:
            raise ValueError(f"the learning-rate policy {text} does not fit into a training of {total} steps")
        return policy

    def position(self, step: int) -> tuple[int, int]:
        """Return the step and the total number of steps for which the learning rate is computed."""
        if self.restart and step >= self.restart:
            return step - self.restart, self.total - self.restart
        length = self.stop - self.start
        return step - min(max(step - self.start, 0), length), self.total - length

    def held(self, step: int) -> bool:
        """Return whether the learning rate is held at this step."""
        return self.start <= step < self.stop

    def restarts(self, step: int) -> bool:
        """Return whether the learning rate restarts at this step."""
        return step == self.restart > 0
