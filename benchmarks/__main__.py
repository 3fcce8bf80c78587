"""python -m benchmarks NAME …: run benchmarks and write benchmarks/results/NAME.json."""

import argparse
import importlib
import inspect
import warnings

from sklearn.exceptions import ConvergenceWarning

from benchmarks import harness

NAMES = {
    "throughput": "epochs per second on sparse text, one and two threads, against SGDClassifier",
    "optimum": "time to within 1 % of the optimal objective on RCV1, against every peer",
    "peers": "six data sets, seven learners: time, objective, test error",
    "rates": "the automatic learning rate of linear solvers against a grid, on a panel of problems",
    "scaling": "time per epoch against non-zeros, width and threads",
    "blocks": "softmax: cost and benefit of sixteen classes per step, up to a million classes",
    "manyclasses": "softmax: time to equal train log-loss, against scikit-learn and PyTorch",
    "untuned": "softmax: the default against tuned solvers on six data sets, and at other rates",
    "heldout": "softmax: test log-loss with early stopping, against a tuned LogisticRegression",
    "baselines": "softmax: NCE and importance sampling, distance to the maximum likelihood",
    "topk": "the five likeliest of a million classes, against faiss and usearch",
    "nextword": "softmax: WikiText-2's next word, 33,278 classes: ablation, rates, variance",
    "regularisation": "nothing to tune: strengths chosen by themselves, beside peers that search",
    "observed": "softmax: weights of observed pairs only, beside dense ones and trees of labels",
    "reduce": "augment and reduce: known coefficients, classes drawn by frequency, time of a step",
    "tagging": "CRF: CoNLL-2000 chunking, against CRFsuite",
    "readers": "reading svmlight text, against scikit-learn's loader",
    "larger": "training on data several times larger than the memory allowed",
    "cluster": "Ray on two nodes: time, bytes, loss for 1, 2, 4 workers; kills; a cost model",
    "coldstart": "seconds of --help, of a first fit with a cold and a warm cache, of a second fit",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    listing = "; ".join(f"{name}: {text}" for name, text in NAMES.items())
    parser.add_argument("names", nargs="*", metavar="NAME", help=listing.replace("%", "%%"))
    parser.add_argument("--quick", action="store_true", help="a smoke test with less data")
    parser.add_argument("--render", action="store_true", help="update the tables in the documents")
    parser.add_argument(
        "--only", metavar="PARTS", help="parts of a benchmark, as softmax/Bibtex,l1"
    )
    parser.add_argument("--limit", type=float, metavar="S", help="seconds for a peer on one set")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}: choose from {', '.join(NAMES)}")
    if not options.names and not options.render:
        parser.print_help()
    # Fits stop before they have converged: here that is on purpose.
    warnings.filterwarnings("ignore", module="sklearn|vowpalwabbit|skglm|celer")
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    for name in options.names:
        run = importlib.import_module(f"benchmarks.{name}").run
        given = {key: getattr(options, key) for key in ("only", "limit")}
        settings = {key: value for key, value in given.items() if value is not None}
        for key in settings:
            if key not in inspect.signature(run).parameters:
                parser.error(f"{name} has no --{key}")
        result = run(quick=options.quick, **settings)
        path = harness.save(name, result, quick=options.quick)
        print(harness.tables(name, result))
        print(f"written: {path}")
    if options.render:
        harness.render()


if __name__ == "__main__":
    main()
