"""Courses of the learning rate around a deficit.

| course         | the learning rate                                                                               |
|----------------|-------------------------------------------------------------------------------------------------|
| (empty)        | the task's own, over all of training                                                            |
| ``hold@A..B``  | stands still from step A to step B, then goes on: its course is that of a training without      |
|                | these steps. So the paper holds it through a deficit                                            |
| ``restart@B``  | its own over the first B steps; at B it begins anew for the remaining steps, and the optimiser  |
|                | forgets its moments: the control that a claim of lasting damage needs                           |
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class LearningRatePolicy:
    """Where in its own course the learning rate is at each step.

    >>> hold = LearningRatePolicy.of("hold@0..100", total=300)
    >>> hold.place(50), hold.place(150), hold.held(50), hold.held(150)
    ((0, 200), (50, 200), True, False)
    >>> restart = LearningRatePolicy.of("restart@100", total=300)
    >>> restart.place(99), restart.place(100), restart.restarts(100)
    ((99, 300), (0, 200), True)
    """

    total: int
    kind: str = ""
    start: int = 0
    stop: int = 0

    @classmethod
    def of(cls, text: str, total: int) -> LearningRatePolicy:
        """The course that a text stands for, in a training of so many steps."""
        if not text:
            return cls(total)
        found = re.fullmatch(r"(hold)@(\d+)\.\.(\d+)|(restart)@(\d+)", text)
        if found is None:
            raise ValueError(f"a course of the learning rate is hold@A..B or restart@B, in steps, not {text!r}")
        if found[1]:
            course = cls(total, "hold", int(found[2]), int(found[3]))
        else:
            course = cls(total, "restart", int(found[5]), int(found[5]))
        if course.start > course.stop or course.stop >= total:
            raise ValueError(f"{text} does not fit into a training of {total} steps")
        return course

    def place(self, step: int) -> tuple[int, int]:
        """The step, and the total, that the learning rate is computed for."""
        if self.kind == "hold":
            length = self.stop - self.start
            return step - min(max(step - self.start, 0), length), self.total - length
        if self.kind == "restart" and step >= self.stop:
            return step - self.stop, self.total - self.stop
        return step, self.total

    def held(self, step: int) -> bool:
        """Whether the learning rate stands still at this step."""
        return self.kind == "hold" and self.start <= step < self.stop

    def restarts(self, step: int) -> bool:
        """Whether the learning rate begins anew at this step."""
        return self.kind == "restart" and step == self.stop > 0
