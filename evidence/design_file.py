"""Read the design of the evidence from claims.toml and domains.toml, and check that all names in them exist."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar

from bitcycle._support.names import nearest
from evidence.design import FOLDER, Claim, Contrast, Design, Domain, Measure, Role, Rule, Statistic
from evidence.studies import settings_of

CLAIMS, DOMAINS = "claims.toml", "domains.toml"
_TYPES: dict[str, Callable[[Any], Any]] = {"rule": Rule, "kind": Statistic, "measure": Measure}
"""The keys whose values are members of an enumeration."""
Made = TypeVar("Made", Claim, Contrast, Domain)


def read_design(folder: Path = FOLDER) -> Design:
    """Read claims.toml and domains.toml.

    Raises:
        ValueError: A file is missing, or something in it is wrong: the message names the file.
    """
    with _open(folder / CLAIMS) as file:
        common = {"smallest": file["smallest"], "domains": ["*"]}
        claims = tuple(_claim({**common, **each}) for each in file["claim"])
    with _open(folder / DOMAINS) as file:
        design = Design(
            claims=claims,
            domains=tuple(_make(Domain, each, f"the domain {each.get('id')!r}") for each in file["domain"]),
            studies={name: tuple(study["part"]) for name, study in file["studies"].items()},
            first_seed={role: file["seeds"][role.value] for role in Role},
            tuning_seeds=file["seeds"]["number_for_tuning"],
        )
        for domain in design.domains:
            _check_domain(domain, design)
    with _open(folder / CLAIMS):
        for claim in design.claims:
            _check_claim(claim, design)
    return design


@contextmanager
def _open(path: Path) -> Iterator[dict[str, Any]]:
    """Read a file, and name it in errors about it."""
    try:
        yield tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no {path}: run this in the repository, or name its folder with --folder") from None
    except KeyError as error:
        raise ValueError(f"{path}: lacks {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _claim(values: dict[str, Any]) -> Claim:
    what = f"the claim {values.get('id')!r}"
    if "beyond" in values:
        values["beyond"] = _make(Contrast, values["beyond"], f"beyond in {what}")
    return _make(Claim, values, what)


def _make(kind: type[Made], values: Mapping[str, Any], what: str) -> Made:
    """Return an object whose fields are the keys of a table."""
    known = {field.name: field.default is MISSING for field in fields(kind)}
    for key in values:
        _check_name(key, known, f"{what} has a key that is not known")
    if missing := [name for name, needed in known.items() if needed and name not in values]:
        raise ValueError(f"{what} lacks {', '.join(missing)}")
    converted: dict[str, Any] = {}
    for key, value in values.items():
        convert = _TYPES.get(key, tuple if isinstance(value, list) else lambda each: each)
        converted[key] = convert(value)
    return kind(**converted)


def _check_domain(domain: Domain, design: Design) -> None:
    what = f"the domain {domain.id!r}"
    for study in domain.studies:
        _check_name(study, design.studies, f"{what} has a study that is not defined")
    if domain.gap_of:
        _check_name(domain.gap_of, [each.id for each in design.domains], f"gap_of in {what} is no domain")


def _check_claim(claim: Claim, design: Design) -> None:
    what = f"the claim {claim.id!r}"
    _check_name(claim.study, design.studies, f"{what} has a study that is not defined")
    if claim.given:
        _check_name(claim.given, [each.id for each in design.claims], f"given in {what} is no claim")
    kinds = ["*", *dict.fromkeys(kind for domain in design.domains for kind in domain.kinds)]
    for kind in claim.domains:
        _check_name(kind, kinds, f"{what} names a kind that no domain has")
    for domain in design.domains:
        if claim in design.claims_about(domain):
            settings = settings_of(design, domain, claim.study)
            for setting in claim.needed:
                _check_name(setting, settings, f"{what} has a setting that its study on {domain.id} does not have")


def _check_name(name: str, known: Iterable[str], error: str) -> None:
    if name not in known:
        raise ValueError(f"{error}: {name!r}; {nearest(name, known)}")
