"""What paper 001 published, and the names of its methods in tables."""

from monro.studies.augment_reduce_runs import EXACT, METHODS, PRINTED

NAMES = {"softmax": "A&R, softmax", "probit": "A&R, probit", "logistic": "A&R, logistic"}
PAPER_EPOCH = {  # Table 2, seconds: OVE, softmax, probit, logistic
    "": (11.3, 11.8, None, None),
    "mnist": (0.336, 0.337, 0.431, 0.511),
    "bibtex": (0.181, 0.188, 0.244, 0.246),
    "omniglot": (4.47, 4.65, 5.63, 5.57),
}
PAPER = {  # Table 3: test log-likelihood, accuracy
    "mnist": ((-0.276, 0.919), (-0.271, 0.924), (-0.302, 0.918), (-0.287, 0.917)),
    "bibtex": ((-3.300, 0.352), (-3.036, 0.361), (-4.184, 0.346), (-3.151, 0.353)),
    "omniglot": ((-5.667, 0.179), (-5.171, 0.201), (-7.350, 0.178), (-5.395, 0.184)),
}
PAPER_EXACT = {"mnist": (-0.261, 0.927), "bibtex": (-3.188, 0.361)}
PAPER_BOUND = {"OVE": -1.40e9, "softmax": -2.62e6}
PAPER_ERROR = {"OVE": 3.65e-6, "softmax": 3.00e-6}
# Why Table 3 may differ.
OTHER_STEPS = (
    "the authors' program takes local steps of 0.001 (1 + epoch)^-0.9, ten times shorter than the "
    "paper says, and leaves the entropy out of their gradient"
)
OTHER_DATA = {
    "mnist": "",
    "bibtex": "Bibtex is split into other training and test rows",
    "omniglot": "the paper does not say how it resized and split the images of Omniglot",
}
METRICS = {"log_likelihood": "test log-likelihood", "accuracy": "accuracy"}


def name_of(method: str) -> str:
    """Return the name of a method in tables."""
    link = method.removesuffix(PRINTED)
    return NAMES.get(link, link) + method[len(link) :]


def published_figure(name: str, method: str, what: str) -> float | None:
    """Return a figure of the paper's Table 3: None for natural steps, which are not the paper's."""
    if method == EXACT:
        pair = PAPER_EXACT[name]
    elif method in METHODS[2:]:
        return None
    else:
        pair = PAPER[name][METHODS.index(method.removesuffix(PRINTED))]
    return pair[list(METRICS).index(what)]
