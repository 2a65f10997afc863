"""Read the design of the evidence from claims.toml and domains.toml, and check that they fit together."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bitcycle._support.names import nearest
from evidence.design import FOLDER, Claim, Contrast, Design, Domain, Measure, Role, Rule, Statistic
from evidence.studies import settings_of

CLAIMS, DOMAINS = "claims.toml", "domains.toml"

TEXT, NUMBER, WHOLE, TEXTS, TABLE, TABLES = (
    "a text",
    "a number",
    "a whole number",
    "a list of texts",
    "a table",
    "a list of tables",
)
_IS: dict[str, Callable[[Any], bool]] = {
    TEXT: lambda value: isinstance(value, str),
    NUMBER: lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    WHOLE: lambda value: isinstance(value, int) and not isinstance(value, bool),
    TEXTS: lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
    TABLE: lambda value: isinstance(value, dict),
    TABLES: lambda value: isinstance(value, list) and all(isinstance(each, dict) for each in value),
}
_CONTRAST = {"better": TEXTS, "than": TEXTS}
_CLAIM = {"id": TEXT, "text": TEXT, "source": TEXT, "study": TEXT, "rule": TEXT}
_CLAIM_OPTIONS = {
    **_CONTRAST,
    "smallest": NUMBER,
    "domains": TEXTS,
    "kind": TEXT,
    "beyond": TABLE,
    "settings": TEXTS,
    "given": TEXT,
}
_DOMAIN = {
    "id": TEXT,
    "title": TEXT,
    "kinds": TEXTS,
    "studies": TEXTS,
    "task": TABLE,
    "measure": TEXT,
    "seeds": WHOLE,
    "scale": TEXT,
    "paper": TEXT,
    "settles": TEXT,
    "hours": NUMBER,
}
_DOMAIN_OPTIONS = {"gap_of": TEXT, "found": WHOLE}
_SEEDS = {"tuning": WHOLE, "judging": WHOLE, "number_for_tuning": WHOLE}


def read_design(folder: Path = FOLDER) -> Design:
    """Read claims.toml and domains.toml.

    Raises:
        ValueError: A file is missing, or something in it is wrong: the message names the file.
    """
    with _naming(folder / CLAIMS) as path:
        file = _toml(path)
        _check(file, {"smallest": NUMBER, "claim": TABLES}, {}, "the file")
        claims = tuple(_claim(each, file["smallest"]) for each in file["claim"])
    with _naming(folder / DOMAINS) as path:
        file = _toml(path)
        _check(file, {"seeds": TABLE, "studies": TABLE, "domain": TABLES}, {}, "the file")
        _check(file["seeds"], _SEEDS, {}, "the table seeds")
        for name, study in file["studies"].items():
            _check(study, {"part": TABLES}, {}, f"the study {name!r}")
        design = Design(
            claims=claims,
            domains=tuple(map(_domain, file["domain"])),
            studies={name: tuple(study["part"]) for name, study in file["studies"].items()},
            first_seed={role: file["seeds"][role] for role in Role},
            tuning_seeds=file["seeds"]["number_for_tuning"],
        )
        for domain in design.domains:
            _check_domain(domain, design)
    with _naming(folder / CLAIMS):
        for claim in design.claims:
            _check_claim(claim, design)
    return design


@contextmanager
def _naming(path: Path) -> Iterator[Path]:
    """Name a file in errors about it."""
    try:
        yield path
    except FileNotFoundError:
        raise ValueError(f"there is no {path}: run this in the repository, or name its folder with --folder") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _claim(values: Mapping[str, Any], smallest: float) -> Claim:
    what = f"the claim {values.get('id')!r}"
    _check(values, _CLAIM, _CLAIM_OPTIONS, what)
    beyond = values.get("beyond")
    if beyond is not None:
        _check(beyond, _CONTRAST, {}, f"beyond in {what}")
    return Claim(
        id=values["id"],
        text=values["text"],
        source=values["source"],
        study=values["study"],
        rule=Rule(values["rule"]),
        smallest=values.get("smallest", smallest),
        domains=tuple(values.get("domains", ["*"])),
        statistic=Statistic(values.get("kind", Statistic.DIFFERENCE)),
        contrast=Contrast(tuple(values.get("better", ())), tuple(values.get("than", ()))),
        beyond=Contrast(tuple(beyond["better"]), tuple(beyond["than"])) if beyond else None,
        settings=tuple(values.get("settings", ())),
        given=values.get("given", ""),
    )


def _domain(values: Mapping[str, Any]) -> Domain:
    what = f"the domain {values.get('id')!r}"
    _check(values, _DOMAIN, _DOMAIN_OPTIONS, what)
    bits = values["task"].get("bits")
    if not (isinstance(bits, list) and len(bits) == 2 and all(map(_IS[WHOLE], bits))):
        raise ValueError(f"the task of {what} needs bits = [q_min, q_max], got {bits!r}")
    rest = {key: value for key, value in values.items() if key not in ("kinds", "studies", "measure")}
    tags, studies = tuple(values["kinds"]), tuple(values["studies"])
    return Domain(**rest, tags=tags, studies=studies, measure=Measure(values["measure"]))


def _check(values: Mapping[str, Any], needed: Mapping[str, str], optional: Mapping[str, str], what: str) -> None:
    """Raise a ValueError if keys are missing or unknown, or a value is of another type."""
    known = {**needed, **optional}
    for key, value in values.items():
        _check_name(key, known, f"{what} has a key that is not known")
        if not _IS[known[key]](value):
            raise ValueError(f"{key} in {what} must be {known[key]}, got {value!r}")
    if missing := [key for key in needed if key not in values]:
        raise ValueError(f"{what} lacks {', '.join(missing)}")


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
    tags = {"*": None} | {tag: None for domain in design.domains for tag in domain.tags}
    for tag in claim.domains:
        _check_name(tag, tags, f"{what} names a tag that no domain has")
    for domain in design.domains:
        if claim in design.claims_about(domain):
            settings = settings_of(design, domain, claim.study)
            for setting in claim.needed:
                _check_name(setting, settings, f"{what} has a setting that its study on {domain.id} does not have")


def _check_name(name: str, known: Iterable[str], error: str) -> None:
    if name not in known:
        raise ValueError(f"{error}: {name!r}; {nearest(name, known)}")
