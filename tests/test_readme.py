"""The README's tables are made from the committed results, and nothing else."""

from benchmarks import harness
from benchmarks.__main__ import NAMES


def test_tables_equal_the_results():
    assert harness.README.read_text() == harness.rendered_readme()


def test_every_benchmark_has_a_result():
    assert {path.stem for path in harness.RESULTS.glob("*.json")} == set(NAMES)
