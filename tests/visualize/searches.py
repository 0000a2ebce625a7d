"""What search.json holds, made up, and pages as they are read."""

from html.parser import HTMLParser

MIB = 2**20
UNITS = ("stem", "stage1.0", "stage1.1", "stage1.2", "head")


def step(size, policies, reserved, cost, *, budget=1000, micro=2):
    return {
        "micro_batch_size": micro,
        "image_size": [size, 384],
        "policies": policies,
        "allocated": (reserved - 40) * MIB,
        "reserved": reserved * MIB,
        "cost": cost,
        "time": 1e9,
        "fits": reserved <= budget,
    }


MIXED = {"stem": "full", "stage1.0-1": "selective"}
ALSO_MIXED = {"stem": "full", "stage1.2": "selective"}
TRIED = [
    step(256, "full", 300, 0.3),
    step(512, "none", 1600, 0.0),
    step(512, ALSO_MIXED, 900, 0.22),
    step(512, MIXED, 900, 0.17),
    step(544, "full", 1100, 0.3),
    step(544, "full@2", 1050, 0.3),
    step(512, MIXED, 900, 0.17),  # once more, after a probe
]


def probe(row, *, reserved=None, allocated=None, fits=True, **found):
    measured = {"live": None, "seconds": None, "spread": None, "retries": 0, "out_of_memory": False, **found}
    return {**row, "measured": {**measured, "allocated": allocated, "reserved": reserved}, "fits": fits}


def plan(**changes):
    """Two micro-batches of 2 at 512 x 384."""
    return {
        "micro_batch_size": 2,
        "accumulation_steps": 2,
        "image_size": [512, 384],
        "precision": "bf16-mixed",
        "policies": dict(zip(UNITS, ("full", "selective", "selective", "none", "none"), strict=True)),
        "budget": 1000 * MIB,
        "margin": 20 * MIB,
        "predicted": {"allocated": 860 * MIB, "reserved": 900 * MIB},
        "measured": None,
        "reasons": [],
        "rungs": [],
        **changes,
    }


def outcome(**changes):
    """A search that was not followed by probes."""
    return {
        "command": "autobatch",
        "run_dir": "runs/1",
        "overrides": [],
        "device": "cuda",
        "goal": "resolution",
        "budget": 1000 * MIB,
        "plan": plan(),
        "override": "micro_batch_size=2 'image_size=[512,384]' "
        "'memory.activation_checkpointing={stem: full, stage1.0-1: selective}'",
        "peak_bytes": {
            "predicted": {"allocated": 860 * MIB, "reserved": 900 * MIB},
            "allocated": None,
            "reserved": None,
        },
        "tried": TRIED,
        "probes": [],
        "seconds": 3.25,
        "notes": [],
        **changes,
    }


def measured(**changes):
    """A search with a probe that ran out of memory and one that fitted."""
    failed = probe(TRIED[1], fits=False, out_of_memory=True)
    good = probe(TRIED[3], reserved=800 * MIB, allocated=790 * MIB, seconds=1.5)
    peaks = {**outcome()["peak_bytes"], "allocated": 790 * MIB, "reserved": 800 * MIB}
    return outcome(probes=[failed, good], peak_bytes=peaks, **changes)


class Page(HTMLParser):
    """The elements of a page, its text, and its tables as rows of texts."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.rows: list[list[str]] = []
        self.codes: list[str] = []
        self.inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "small":
            self.rows[-1][-1] += " | "
        elif tag == "code":
            self.codes.append("")
        if tag in ("td", "th", "code"):
            self.inside.append(tag)

    def handle_endtag(self, tag):
        if tag in ("td", "th", "code"):
            self.inside.pop()

    def handle_data(self, data):
        self.text += data
        if "code" in self.inside:
            self.codes[-1] += data
        elif self.inside:
            self.rows[-1][-1] += data

    def row(self, name: str) -> list[str]:
        return next(row for row in self.rows if row[0] == name)
