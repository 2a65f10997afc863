"""Profiles: growth curves g on [0, 1] that a schedule follows from q_min up to q_max.

A profile is a registered pure function of an array ``z``; further arguments are its parameters. A new one:

>>> from bitcycle.schedules import profile, schedule
>>> @profile("quadratic")
... def quadratic(z):
...     return z**2
>>> schedule("quadratic-repeated:3-8:cycles=1")(500, 1000)
4
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.names import nearest

Curve = Callable[..., NDArray[np.float64]]
F = TypeVar("F", bound=Callable[..., object])

PROFILES: dict[str, Curve] = {}


@dataclass(frozen=True)
class Profile:
    """A registered curve with its parameters; called on an array in [0, 1]."""

    name: str
    parameters: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, name: str, **parameters: float) -> Profile:
        """The profile of that name, its parameters checked and completed by their defaults."""
        if name not in PROFILES:
            raise ValueError(f"unknown profile {name!r}; {nearest(name, PROFILES)}")
        known = defaults(name)
        for key, value in parameters.items():
            if key not in known:
                raise ValueError(f"profile {name} has no parameter {key!r}; it takes {', '.join(known) or 'none'}")
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ValueError(f"{key} of profile {name} is a number, not {value!r}")
        complete = {key: float(parameters.get(key, default)) for key, default in known.items()}
        profile = cls(name, tuple(complete.items()))
        _check_range(profile)
        return profile

    def __call__(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        return PROFILES[self.name](z, **dict(self.parameters))

    def changed(self) -> dict[str, float]:
        """The parameters that differ from their defaults: what a spec has to say."""
        known = defaults(self.name)
        return {key: value for key, value in self.parameters if value != known[key]}


def profile(name: str) -> Callable[[F], F]:
    """Register a growth curve under a name; its keyword arguments with defaults become parameters."""
    if not name.isidentifier():
        raise ValueError(f"a profile's name is one word of letters, digits and _, not {name!r}")

    def register(curve: F) -> F:
        PROFILES[name] = curve  # type: ignore[assignment]
        try:
            Profile.of(name)
        except Exception:
            del PROFILES[name]
            raise
        return curve

    return register


def defaults(name: str) -> dict[str, float]:
    """The parameters of a registered profile with their default values."""
    arguments = list(inspect.signature(PROFILES[name]).parameters.values())[1:]
    return {argument.name: float(argument.default) for argument in arguments}


def _check_range(profile: Profile) -> None:
    z = np.linspace(0.0, 1.0, 257)
    with np.errstate(all="ignore"):
        values = np.asarray(profile(z))
    settings = ", ".join(f"{key}={value:g}" for key, value in profile.parameters)
    label = f"profile {profile.name}" + (f" with {settings}" if settings else "")
    if values.shape != z.shape:
        raise ValueError(f"{label} must give one value for each of its inputs: shape {z.shape}, not {values.shape}")
    if not (np.isfinite(values).all() and values.min() >= -1e-9 and values.max() <= 1 + 1e-9):
        raise ValueError(f"{label} leaves [0, 1]: a growth curve has g(0) = 0 and stays between 0 and 1")
    if abs(values[0]) > 1e-9 or values[-1] <= values[0]:
        raise ValueError(f"{label} does not grow from 0: g(0) = {values[0]:g}, g(1) = {values[-1]:g}")


@profile("cosine")
def cosine(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """g(z) = (1 - cos(pi z)) / 2; mean 0.5."""
    return (1 - np.cos(np.pi * z)) / 2


@profile("linear")
def linear(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """g(z) = z; mean 0.5."""
    return z


@profile("exponential")
def exponential(z: NDArray[np.float64], rate: float = 4.0) -> NDArray[np.float64]:
    """g(z) = 1 - exp(-rate z); mean 0.755 at the default rate, at which it ends at 0.98."""
    return 1 - np.exp(-rate * z)


@profile("rex")
def rex(z: NDArray[np.float64], constant: float = 0.9) -> NDArray[np.float64]:
    """g(z) = 1 - u / ((1 - c) + c u) with u = 1 - z; mean 0.173 at c = 0.9. (The REX learning rate has c = 0.5.)"""
    u = 1 - z
    return 1 - u / ((1 - constant) + constant * u)
