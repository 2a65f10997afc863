"""Random plans in TOML: most are plans, the others are damaged ones; and the laws that hold for all of them."""

import tempfile
import tomllib
from pathlib import Path

import bitcycle.lab.tasks  # noqa: F401 - loads torch, so that no input has to
from bitcycle.lab.studies.plan_file import plan_of, read_plan
from tests.fuzz.specs import NUMBERS, PIECES, draw_spec

VALUES = {
    "schedules": ('"ten"', '["CR", "static q_max"]', '"all"', '["linear-rise"]', "3", "[]", "[[1]]", '["call:none"]'),
    "bits": (
        *("[3, 8]", "[[2, 8]]", "[[2, 8], [3, 8]]", "[8, 3]", "8", "[0, 8]", "[3, 17]", "[[[3, 8]]]"),
        *("[3, 0xffffffffffffffffff]", f"[3, 0x{'f' * 9000}]"),
    ),
    "cycles": ("8", "[2, 8]", "0", "1000000", "1000001", "2.5", "nan", '"8"'),
    "seeds": ("2", "[7, 8]", "0", "[-1]", "[9223372036854775808]", "true"),
    "steps": ("40", "1000", "1000000000000", "1000000000001", "0", "inf", "1e3"),
    "model": ('""', '""', '"resnet-9"', "3"),
    "batch_size": ("0", "16", "-1", "1979-05-27"),
    "autocast": ("true", "false", "1"),
    "test_weights": ('"best"', '"last"', "{}"),
    "evaluate_at": ('"max"', '"current"', '"min"', "8"),
    "options": ("{}", "{}", "{ aggregation = 'full' }", "{ a = 1, b = [2, 3] }", "3", "{ a = { b = { c = 1 } } }"),
}
SHARED = ("bits", "steps", "seeds", "model", "batch_size", "options", "autocast", "test_weights", "evaluate_at")
BOTH = {
    "part": {
        **{key: VALUES[key] for key in ("schedules", "cycles", *SHARED)},
        "backward_bits": ('"max"', '"full"', "8", '"static:8"', '"linear-rise:6-8"', "17", '"most"', "4.5"),
        "weights": (
            *('"static:4"', '["CR:3-8:cycles=2", ""]', '"full"', "4", '"static:5.62"', '"match(CT)"', "[[4]]", "nan"),
        ),
        "activations": (
            *('"static:8"', '"linear-rise:4-8"', '["full", "static:8"]', "8", '"17"', '"static:0.5"', "true"),
        ),
        "strength": (
            *('"linear-rise"', '"join(0, 0.25, linear-rise, 0.75, 1)"', "0.5", '["0.5", ""]', "1.5", '"-1"', "inf"),
        ),
        "grid": ('"integer"', '["integer", "symmetric"]', '"float"', '"mx"', '"nvfp4"', '"posit"', "[]", "3"),
        "learning_rate": ('"hold@0..3"', '["", "restart@5"]', '"hold"', "3"),
    },
    "deficit": {
        **{key: VALUES[key] for key in SHARED},
        "lengths": ("[0, 0.5, 1.0]", "[]", "[nan]", "[1e308]", "0.5"),
        "window": ("0.5", "1", "-1", "inf"),
        "starts": ("[0, 0.25]", "0.5", '["a"]'),
        "recovery": ('"rest"', '"whole"', '"none"'),
    },
}
CORRECT = 2  # of each list, as many from the beginning are fine


def draw_plan(random):
    """Return a plan as text, valid or not."""
    lines = ['name = "mine"'] if random.random() < 0.5 else []
    careless = random.random() < 0.3
    for _ in range(random.choice((1, 1, 2, 3))):
        table = random.choice(tuple(BOTH))
        lines += [f"[[{table}]]", random.choice(('task = "image"', 'task = "graph"'))]
        for key, values in BOTH[table].items():
            if random.random() < 0.4:
                lines.append(f"{key} = {random.choice(values if careless else values[:CORRECT])}")
        if table == "part" and random.random() < 0.2 and not any(line.startswith("schedules") for line in lines):
            spec = draw_spec(random)[0].encode("utf-8", "replace").decode()
            lines.append("schedules = [" + _quoted(spec) + "]")
    text = "\n".join(lines)
    return _damaged(random, text) if random.random() < 0.3 else text


def read_text(text):
    """Return the plan of a file with a text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "plan.toml")
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return read_plan(path)


def check_plan(plan):
    """Check that a plan is the same plan after it was written down."""
    assert plan_of(tomllib.loads(plan.as_toml())).parts == plan.parts


def _quoted(text):
    return '"' + "".join(f"\\U{ord(letter):08x}" if not letter.isalnum() else letter for letter in text) + '"'


def _damaged(random, text):
    place = random.randint(0, len(text))
    return random.choice(
        (
            text[:place] + random.choice(PIECES) + text[place:],
            text[:place] + text[place + random.randint(1, 9) :],
            text + "\nx = " + random.choice(("[", "{x=", '"""', "'", "[[")) * random.choice((1, 100, 10_000)),
            text + "\n" + ".".join(["a"] * random.choice((2, 16, 17, 50_000))) + " = 1",
            text + "\nsteps = " + random.choice(NUMBERS),
            text + "\n#" + "x" * random.choice((10, 10**6)),
        )
    )
