"""Training in rounds: shards of examples go from part to part of the classes.

P parts stand in a circle, S ≥ P shards are set between them. In a round each part is visited by one
shard, no shard is in two places, and after S rounds every pair has met once: an epoch. Nobody waits
for a round to end: a visit begins when its part is free and its shard has come from the last one.

`Crew` says who holds the parts; `Local` holds them in this process.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from monro.fitting import Record, Report
from monro.rows import Array
from monro.softmax.evaluate import Weights
from monro.softmax.layout import LANES, n_blocks, new_weights
from monro.softmax.parts import Deal, Part, slots_of
from monro.softmax.solvers import Plan, rate_at
from monro.softmax.state import NOWHERE
from monro.softmax.stretch import Judged, best_multiple, costs_too_much, is_due

Handle = Any  # what stands for a value that may not be there yet


class LostError(Exception):
    """Someone who held a part is gone, and the part with it."""


class Crew(Protocol):
    """Holds the parts, and does what they are asked, for each part in the order asked."""

    @property
    def size(self) -> int:
        """How many parts there are."""

    def assign(self, number: int, make: Callable[..., Any], *args: Any) -> Handle:
        """Let one have a new part."""

    def call(self, number: int, method: str, *args: Any, returns: int = 1) -> Any:
        """Ask a part; return a handle, or as many as it returns values. Handles may be given on."""

    def values(self, handles: Sequence[Handle]) -> list[Any]:
        """Return the values, once they are there; raise LostError if they never will be."""


class Local:
    """Parts in this process."""

    def __init__(self, size: int):
        self.size = size
        self.parts: list[Any] = [None] * size

    def assign(self, number: int, make: Callable[..., Any], *args: Any) -> Handle:
        """Let one have a new part."""
        self.parts[number] = make(*args)

    def call(self, number: int, method: str, *args: Any, returns: int = 1) -> Any:
        """Ask a part."""
        return getattr(self.parts[number], method)(*args)

    def values(self, handles: Sequence[Handle]) -> list[Any]:
        """Return the values."""
        return list(handles)


class Examples(NamedTuple):
    """The shards, and what is known of all their rows."""

    shards: list[Handle]
    sizes: list[int]
    n_features: int
    sparse: bool
    nonzeros: int
    mean_sqnorm: float
    clusters: Any  # the cells of rows, where these are not their features


class Rounds:
    """Takes epochs of rounds.

    Parameters
    ----------
    crew : Crew
    examples : Examples
    plan : Plan
    deal : Deal
    bias : array
        The intercepts to begin with, one of each class.
    judged : Judged
        Rows whose exact loss decides.
    seed : int
        Of all that is random: the same visits are the same wherever and whenever they happen.
    """

    near = 1

    def __init__(
        self,
        crew: Crew,
        examples: Examples,
        plan: Plan,
        deal: Deal,
        bias: Array,
        judged: Judged,
        seed: int,
    ):
        self.crew, self.examples, self.plan, self.deal = crew, examples, plan, deal
        self.bias, self.judged, self.seed = bias, judged, seed
        self.epochs = 0
        self.seconds = 0.0
        self.now = plan  # that the parts follow
        self.u: list[Handle] = []

    @property
    def size(self) -> int:
        """Rows."""
        return sum(self.examples.sizes)

    @property
    def mean_sqnorm(self) -> float:
        """Of the rows."""
        return self.examples.mean_sqnorm

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    # ---------------------------------------------------------------------------------- beginnings

    def _all(self, method: str, *args: Any) -> list[Handle]:
        """Ask every part."""
        return [self.crew.call(p, method, *args) for p in range(self.crew.size)]

    def _each(self, method: str, *args: Any) -> list[Handle]:
        """Ask every part about every shard."""
        shards = enumerate(self.examples.shards)
        return [h for key, shard in shards for h in self._all(method, key, shard, *args)]

    def set_up(self) -> None:
        """Make the parts, and let them look at the examples."""
        examples, plan = self.examples, self.plan
        make = partial(
            Part, plan, self.deal, n_features=examples.n_features, sparse=examples.sparse
        )
        self.crew.values([self.crew.assign(p, make, p) for p in range(self.crew.size)])
        if plan.sampling == "neighbour":
            told = self._each("count", examples.nonzeros, [self.seed, 1], examples.clusters)
            self.crew.values(told)
        # That of the epoch before: where it changes, the next one has more to do than to follow.
        self._follow(self._plan_of(max(0, self.epochs - 1)))

    def _plan_of(self, epoch: int) -> Plan:
        plan = self.plan
        if plan.sampling == "all" or plan.epochs - epoch > plan.exact_epochs:
            return plan
        return plan._replace(sampling="all", stiffness=0.0)

    def _follow(self, plan: Plan) -> None:
        told = self._all("follow", plan)
        if plan.alpha > 0.0:
            told += self._each("touch")
        self.crew.values(told)
        self.now = plan

    def begin(self) -> None:
        """Let all weights be 0."""
        self.crew.values(self._all("begin", self.bias))
        normaliser = np.logaddexp.reduce(self.bias)
        self.u = [np.full(n, normaliser) for n in self.examples.sizes]

    def at_rate(self, eta0: float) -> Self:
        """Begin anew, at this rate."""
        self.plan = self.now = self.plan._replace(eta0=eta0)
        self.begin()
        return self

    # -------------------------------------------------------------------------------------- epochs

    def _meetings(self, epoch: int) -> list[tuple[int, int, int]]:
        """Return round, part and shard of every visit of an epoch."""
        shards, parts = len(self.examples.shards), self.crew.size
        circle = np.random.default_rng([self.seed, 2, epoch]).permutation(shards)
        return [
            (t, p, int(circle[(t + p * shards // parts) % shards]))
            for t in range(shards)
            for p in range(parts)
        ]

    def epoch(self, report: Report = lambda rows: None) -> Record:
        """Take an epoch; the loss is that of the classes drawn, before each step."""
        begin = time.perf_counter()
        plan, epoch = self._plan_of(self.epochs), self.epochs
        if plan != self.now:
            self._follow(plan)
            self._tell()
        rounds = len(self.examples.shards)
        losses = []
        for t, p, key in self._meetings(epoch):
            rate = rate_at(plan, epoch + (t + 0.5) / rounds)
            losses.append(self._visit(p, key, rate, [self.seed, 3, epoch, key, p]))
        total = 0.0
        for k, (_, _, key) in enumerate(self._meetings(epoch)):
            total += self.crew.values([losses[k]])[0]
            report(self.examples.sizes[key])
        self.epochs += 1
        self._stretch()
        self.seconds += time.perf_counter() - begin
        return {
            "epoch": self.epochs,
            "seconds": self.seconds,
            "loss": total / self.size,
            "rate": rate_at(plan, epoch),
        }

    def _visit(self, part: int, key: int, rate: float, seed: Any, *rows: Array) -> Handle:
        shard, u = self.examples.shards[key], self.u[key]
        self.u[key], loss = self.crew.call(
            part, "visit", key, shard, u, rate, seed, *rows, returns=2
        )
        return loss

    def visit(self, order: Array, rate: float) -> float:
        """Step on some rows; return the sum of their losses before."""
        ends = np.cumsum(self.examples.sizes)
        home = np.searchsorted(ends, order, side="right")
        losses = []
        for key in np.unique(home).tolist():
            rows = order[home == key] - (ends[key] - self.examples.sizes[key])
            losses += [
                self._visit(p, key, rate, [self.seed, 4, key, p], rows)
                for p in range(self.crew.size)
            ]
        return float(sum(self.crew.values(losses)))

    def _stretch(self) -> None:
        """Now and then let the weights be the best multiple of themselves."""
        if costs_too_much(self.judged, self.bias.size) or not is_due(self.plan, self.epochs):
            return
        S = np.empty((self.judged.codes.size, self.bias.size))
        for p, scores in enumerate(self.crew.values(self._all("scores", self.judged.X))):
            S[:, self.deal.classes(p)] = scores
        c = best_multiple(S, self.judged, self.ridge())
        if c > 1.0:
            self._all("stretch", c)
            self._tell()

    def _tell(self) -> None:
        """Add up the parts' shares of the normalisers anew."""
        for key, shard in enumerate(self.examples.shards):
            u = None
            for p in range(self.crew.size):
                u = self.crew.call(p, "tell", key, shard, u)
            self.u[key] = u

    # ------------------------------------------------------------------------------ what is learnt

    def ridge(self) -> float:
        """Return ``alpha/2 ‖W‖²``."""
        if self.plan.alpha == 0.0:
            return 0.0
        return float(sum(self.crew.values(self._all("ridge"))))

    def losses(self, X: Any, codes: Array) -> Array:
        """Return the exact loss of each row."""
        told = self.crew.values(self._all("judge", X, codes))
        ell, own = (np.stack(each) for each in zip(*told, strict=True))
        return np.asarray(np.logaddexp.reduce(ell) - own.max(axis=0))

    def judged_loss(self) -> float:
        """Return the exact objective of the rows that decide."""
        each = self.losses(self.judged.X, self.judged.codes)
        return float(self.judged.weight @ each + self.ridge())

    def parts_weights(self) -> list[Handle]:
        """Return the model of each part."""
        told = self._all("weights")
        self.crew.values(self._all("ridge"))  # asked after them, so they are there
        return told

    # --------------------------------------------------------------------------------------- files

    def save(self, folder: Path) -> None:
        """Write parts and local variables, each from where it is."""
        folder.mkdir(exist_ok=True)
        told = [self.crew.call(p, "save", str(folder / f"part-{p}")) for p in range(self.crew.size)]
        for key, u in enumerate(self.u):
            path = str(folder / f"local-{key}")
            told.append(self.crew.call(key % self.crew.size, "save_local", path, u))
        self.crew.values(told)

    def load(self, folder: Path) -> None:
        """Read them back."""
        parts = range(self.crew.size)
        self.crew.values([self.crew.call(p, "load", str(folder / f"part-{p}")) for p in parts])
        self.u = [
            self.crew.call(key % self.crew.size, "load_local", str(folder / f"local-{key}"))
            for key in range(len(self.examples.shards))
        ]


def gathered(deal: Deal, parts: Iterable[Weights]) -> Weights:
    """Put the parts' weights together as one model."""
    blocks = n_blocks(deal.slots.size)
    bias, scale, W = np.zeros(0), np.zeros(0), np.zeros(0)
    for p, part in enumerate(parts):
        own: Any = part.W
        if p == 0:
            W = new_weights(own.ndim == 3, blocks, own.shape[1], own.dtype)
            bias = np.full(blocks * LANES, NOWHERE, own.dtype)
            scale = np.ones(blocks * LANES, own.dtype)
        mine = deal.blocks(p)
        lanes = slots_of(mine)
        W[mine if own.ndim == 3 else lanes] = own
        bias[lanes], scale[lanes] = part.bias, part.scale
    return Weights(W, scale, bias, deal.slots)
