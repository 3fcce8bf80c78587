"""A page with every kind of content."""

import math

from monro.report.content import Chapter, Curve, Page, Plot, Section, Table

HOSTILE = """</script><b>&amp; "quoted" 'too' %{x} \u2028"""
LONG = "a method with a name so long that it must be broken into several lines somewhere " * 2


def falling(name, rate, count=12, group=""):
    epochs = list(range(1, count + 1))
    loss = [0.2 + math.exp(-rate * epoch) for epoch in epochs]
    return Curve(name, {"epochs": epochs, "seconds": [0.3 * e for e in epochs]}, loss, group)


LOSS = Plot(
    "Loss of many methods",
    "held-out loss",
    [falling(f"method {i}", 0.1 * (i + 1)) for i in range(10)],
    note="Lower is better; `method 9` is the best.",
)
GROUPS = Plot(
    "Long curves of two groups",
    "a quantity with a title so long that a narrow screen cannot show it in one line",
    [falling(f"{group}, {part}", 0.05, 200, group) for group in ("a", "b") for part in ("1", "2")],
    log_x=True,
    log_y=True,
)
GAPS = Plot(
    HOSTILE,
    HOSTILE,
    [
        Curve(HOSTILE, {"epochs": [1, 2, 3, 4], "seconds": [1, 2, 3, 4]}, [-1.0, None, 2.0, 3.0]),
        Curve("one point, one axis", {"epochs": [2]}, [1.5]),
        Curve(LONG, {"epochs": [1, 2], "seconds": [0, math.inf]}, [math.nan, 1.0]),
    ],
)
RESULTS = Table(
    "Results",
    ["data set", "rows", *(f"error of method {i}" for i in range(12)), "remark"],
    [
        [LONG, "1,000", *["12.34 ± 0.05"] * 12, "text"],
        ["digits", "999", *["—"] * 12, HOSTILE],
    ],
    "The `median` of five seeds.",
)
PAGE = Page(
    "Everything & more",
    "A page for tests.\n\nOf two paragraphs.",
    Section("In short", "It `works` where 1 < 2.", [RESULTS, LOSS]),
    [
        Chapter(
            "first",
            "The first chapter",
            "What it is about.",
            [
                Section("Same title", "Text.\n\nMore text.", [GROUPS, GAPS, RESULTS, LOSS]),
                Section("Same title", "", []),
                Section("", "A section without a title.", [RESULTS]),
            ],
            {"monro": "1.0", "command": HOSTILE},
        ),
        Chapter("zweites Kapitel: Größe", HOSTILE, "", [Section(HOSTILE, HOSTILE, [LOSS])], {}),
    ],
)
PLOTS = [LOSS, GROUPS, GAPS, LOSS, LOSS]
