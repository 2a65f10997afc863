"""The cost of training: effective BitOps, predicted or metered, and estimates of time on real devices."""

from bitcycle._cost.counting import cost
from bitcycle._cost.devices import DEVICES, Device
from bitcycle._cost.meter import Meter
from bitcycle._cost.model_cost import Convention, Cost, Row

__all__ = ["DEVICES", "Convention", "Cost", "Device", "Meter", "Row", "cost"]
