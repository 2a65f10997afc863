"""bitcycle: numerical precision as a training schedule.

import bitcycle as bc

s = bc.schedule("RTH", bits=(3, 8), cycles=8)
s(0, 64000), s.over(64000), s.saving(64000)
"""

from bitcycle.schedules import schedule

__all__ = ["schedule"]

__version__ = "0.1.0"
