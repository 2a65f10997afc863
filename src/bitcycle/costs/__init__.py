"""What training costs: effective BitOps before, during and after, and an estimate of time on real devices."""

from bitcycle.costs.cost import Cost, Row
from bitcycle.costs.counting import cost
from bitcycle.costs.devices import DEVICES, Device
from bitcycle.costs.meter import Meter

__all__ = ["DEVICES", "Cost", "Device", "Meter", "Row", "cost"]
