"""What training costs: effective BitOps before, during and after, and an estimate of time on real devices."""

from bitcycle._cost.cost import Cost, Row
from bitcycle._cost.counting import cost
from bitcycle._cost.devices import DEVICES, Device
from bitcycle._cost.meter import Meter

__all__ = ["DEVICES", "Cost", "Device", "Meter", "Row", "cost"]
