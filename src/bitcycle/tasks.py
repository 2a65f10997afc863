"""What a task of your own needs: subclass :class:`Task`, return a :class:`Training`, and register it."""

from bitcycle.experiments.run_config import RunConfig
from bitcycle.experiments.tasks.task import Batches, Option, Task, Training, register_task

__all__ = ["Batches", "Option", "RunConfig", "Task", "Training", "register_task"]
