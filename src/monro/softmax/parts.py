"""Classes in parts, examples in shards: steps that need one part and one shard at a time.

In Raman et al.'s double sum (paper 000, eq. 8) an example i and a class k meet in one term, which
holds u_i and w_k and nothing else. So what a step on example i needs to know of the classes that
are not here is one number, the logarithm ``o_i`` of the sum of their exponentials: it is a softmax
with one class more, *elsewhere*, whose score is o_i and which no step moves. Where y_i is not here,
elsewhere is the class of the example; the rule is the same (`separable`).

A part p keeps for each shard ``ℓ_i``, the logarithm of its own share of example i's normaliser.
With the shard comes ``u_i``, the logarithm of the whole; ``e^{o} = e^{u} - e^{ℓ}``. A visit changes
u, the weights of the part, and ℓ so that this stays true. Visits of different shards to different
parts share nothing: any number of them may go on at once, and the result is that of one after the
other.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from monro import persist
from monro.fitting import visiting_order
from monro.rows import Array
from monro.softmax.evaluate import Weights, chunked, log_normaliser, scores
from monro.softmax.layout import LANES, n_blocks, view_of
from monro.softmax.mixture import Mixture, make_mixture
from monro.softmax.neighbours import cells_of, count_blocks, make_table, neighbours_of, some_of
from monro.softmax.samplers import AllBlocks, FrequencyBlocks, UniformBlocks, block_frequencies
from monro.softmax.solvers import Plan, head_and_halves, make_rule
from monro.softmax.state import NOWHERE, State, new_state
from monro.softmax.stretch import stretch_bias
from monro.softmax.sweep import (
    SMALLEST_Q,
    Blocks,
    Examples,
    Settings,
    Unbounded,
    gather,
    look_ahead,
    new_scratch,
    scatter,
    sweep,
)
from monro.softmax.train import multiply_out, ridge_of

_CHUNK = 1 << 16  # examples to draw for at a time
_FEWEST = 2  # blocks to draw from a part: one from each proposal
_LEAST = 1e-7  # share of a normaliser that is taken for nothing


class Shard(NamedTuple):
    """Some of the examples."""

    X: Any  # of the plan's dtype
    y: Array  # numbers of classes
    weight: Array  # of mean 1 over all shards
    sqnorm: Array


class Beside(NamedTuple):
    """Blocks drawn from a part, and beside them all that is elsewhere."""

    drawn: Blocks
    elsewhere: Array  # (examples,): o

    def gather(self, rule, view, i, y, j, x2, state, settings, z, scratch):  # type: ignore[no-untyped-def]
        one = z.dtype.type(1.0)
        s = gather(self.drawn, rule, view, i, y, j, x2, state, settings, z, scratch)
        first = z.size - LANES
        for lane in range(first, z.size):
            z[lane] = NOWHERE
            scratch.q[lane] = one
            scratch.log_weight[lane] = 0.0
        if y < 0:
            return self.elsewhere[i]
        z[first] = self.elsewhere[i]
        scratch.q[first] = z.dtype.type(SMALLEST_Q)
        return s

    def scatter(self, view, i, y, j, x2, state, settings, g, pull, steps):  # type: ignore[no-untyped-def]
        scatter(self.drawn, view, i, y, j, x2, state, settings, g, pull, steps)

    def look_ahead(self, view, i, j):  # type: ignore[no-untyped-def]
        look_ahead(self.drawn, view, i, j)


class Deal(NamedTuple):
    """How the classes are dealt out: block b belongs to part b mod P."""

    slots: Array  # of each class
    counts: Array  # examples of each class
    parts: int

    def blocks(self, number: int) -> Array:
        """Return the blocks of a part."""
        return np.arange(number, n_blocks(self.slots.size), self.parts)

    def classes(self, number: int) -> Array:
        """Return the classes of a part, in the order of their slots."""
        slots = slots_of(self.blocks(number))
        return np.argsort(self.slots)[slots[slots < self.slots.size]]


def slots_of(blocks: Array) -> Array:
    """Return the slots of blocks."""
    return np.asarray((LANES * blocks[:, None] + np.arange(LANES)).ravel())


class Part:
    """A part of the classes, and for each shard the logarithms of their share.

    Parameters
    ----------
    plan : Plan
        Of the separable formulation.
    deal : Deal
    number : int
        Which part this is.
    n_features : int
    sparse : bool
        Whether the rows are.
    """

    def __init__(self, plan: Plan, deal: Deal, number: int, n_features: int, *, sparse: bool):
        self.plan = plan
        self.parts = deal.parts
        self.classes = deal.classes(number)
        self.slots = np.full(deal.slots.size, -1, np.int32)  # of all classes; -1 is elsewhere
        self.slots[self.classes] = np.arange(self.classes.size)
        self.counts = deal.counts[self.classes]
        self.n_examples = float(deal.counts.sum())
        blocks = n_blocks(self.classes.size)
        self.state = new_state(sparse, self.classes.size, blocks, n_features, 0, plan.dtype)
        self.ell: dict[int, Array] = {}
        self._first = 0.0
        self._cells: dict[int, Any] = {}  # of shards, where cells are clusters
        self._known: Any = None  # examples by cell and block
        self._touched = np.zeros(self.state.bias.size)
        self._ridge = np.zeros(self.state.bias.size, plan.dtype)

    # ------------------------------------------------------------------------------ getting ready

    def count(self, key: int, shard: Shard, nonzeros: int, seed: Any, clusters: Any = None) -> None:
        """Note in which blocks the classes of a shard's rows lie.

        All shards together have so many non-zeros. Cells are features, unless there are clusters.
        """
        if clusters is not None:
            self._cells[key] = cells_of(clusters, shard.X)
        cells = self._cells.get(key, shard.X)
        y = self.slots[shard.y]
        rows = some_of(nonzeros, y.size, np.random.default_rng(seed))
        rows = np.flatnonzero(y >= 0) if rows is None else rows[y[rows] >= 0]
        found = count_blocks(cells[rows], y[rows] // LANES, self.state.bias.size // LANES)
        self._known = found if self._known is None else self._known + found

    def follow(self, plan: Plan) -> None:
        """Train by this plan from now on."""
        self.plan = plan
        blocks, dtype = self.state.bias.size // LANES, plan.dtype
        m = min(blocks, max(_FEWEST, -(-plan.classes // (LANES * self.parts))))
        self._sampler: Any
        if plan.sampling == "all":
            self._sampler = AllBlocks(blocks, dtype)
        elif plan.sampling == "block":
            self._sampler = UniformBlocks(blocks, m, dtype)
        elif plan.sampling == "frequency":
            self._sampler = FrequencyBlocks(block_frequencies(self.counts), m, dtype)
        else:
            table, probability = make_table(self._known), block_frequencies(self.counts)
            nobody = neighbours_of(sp.csr_matrix((0, table.told.size), dtype=dtype), table)
            self._sampler = make_mixture(nobody, probability, *head_and_halves(m), dtype)
        self._scratch = new_scratch(1, self._sampler.per_step + LANES, dtype)
        self._touched[:] = 0.0
        self._ridge[:] = 0.0

    def touch(self, key: int, shard: Shard) -> None:
        """Note how often steps on the shard will change each class: the ridge is shared out so."""
        y = self.slots[shard.y]
        sampler = self._sampler_for(key, shard)
        if isinstance(sampler, Mixture):
            self._touched += y.size * sampler.touched(y, self.counts)
        else:
            chances = sampler.chances()
            own = np.bincount(y[y >= 0], minlength=chances.size)
            self._touched += y.size * chances + own * (1.0 - chances)
        self._ridge[:] = self.plan.alpha * self.n_examples / np.maximum(self._touched, 1e-30)

    def _sampler_for(self, key: int, shard: Shard) -> Any:
        sampler = self._sampler
        if not isinstance(sampler, Mixture):
            return sampler
        cells = self._cells.get(key, shard.X)
        return sampler._replace(neighbours=neighbours_of(cells, sampler.neighbours.table))

    def begin(self, bias: Array) -> None:
        """Let all weights be 0, and the intercepts these, one of each class."""
        own = bias[self.classes]
        self.state.W[:] = 0.0
        self.state.scale[:] = 1.0
        self.state.bias[: own.size] = own
        self.ell.clear()
        self._first = float(np.logaddexp.reduce(own))

    # ----------------------------------------------------------------------------------- training

    def share(self, key: int, n: int) -> Array:
        """Return ℓ of a shard of n examples."""
        if key not in self.ell:
            self.ell[key] = np.full(n, self._first)
        return self.ell[key]

    def visit(
        self, key: int, shard: Shard, u: Array, rate: float, seed: Any, rows: Array | None = None
    ) -> tuple[Array, float]:
        """Step on the examples of a shard, or on some; return u and the sum of losses before.

        Losses are those of the examples whose class is here.
        """
        plan, number = self.plan, np.dtype(self.plan.dtype).type
        rng = np.random.default_rng(seed)
        order = visiting_order(u.size, rng) if rows is None else rows
        ell = self.share(key, u.size)
        elsewhere = u + np.log(np.maximum(-np.expm1(ell - u), _LEAST))
        W, bias, scale, _ = self.state
        state = State(W, bias, scale, u.astype(plan.dtype))
        # Copies: what comes from elsewhere may be read-only, another type to Numba.
        examples = Examples(
            view_of(shard.X, W), self.slots[shard.y], shard.weight.copy(), shard.sqnorm.copy()
        )
        settings = Settings(number(rate), number(plan.damping), self._ridge, Unbounded())
        rule = make_rule(plan, self._sampler, 0, 0.0)
        sampler, beside = self._sampler_for(key, shard), elsewhere.astype(plan.dtype)
        total = 0.0
        for a in range(0, order.size, _CHUNK):
            part = order[a : a + _CHUNK]
            drawn = Beside(sampler.draw(part, examples.y[part], rng), beside)
            shared = part.size if plan.sampling == "all" else 1
            total += sweep(rule, examples, part, drawn, shared, settings, state, self._scratch)
        # In the precision of the steps u may be no larger than what is elsewhere.
        u = u.copy()
        u[order] = np.maximum(state.u[order].astype(np.float64), elsewhere[order] + _LEAST)
        ell[order] = u[order] + np.log(-np.expm1(elsewhere[order] - u[order]))
        return u, float(total)

    # ----------------------------------------------------------------------------- what is learnt

    def weights(self) -> Weights:
        """Return the model of the classes here."""
        W, bias, scale, _ = self.state
        return Weights(W, scale, bias, np.arange(self.classes.size))

    def scores(self, X: Any) -> Array:
        """Return the scores of the classes here, (rows, classes)."""
        return scores(self.weights(), X)

    def judge(self, X: Any, y: Array) -> tuple[Array, Array]:
        """Return the true ℓ, and the score of each row's own class, -inf where it is elsewhere."""
        slots = self.slots[y]

        def reduce(S: Array, rows: slice) -> Array:
            own = S[np.arange(S.shape[0]), np.maximum(slots[rows], 0)]
            return np.stack([log_normaliser(S), np.where(slots[rows] < 0, -np.inf, own)])

        ell, own = np.concatenate(list(chunked(self.weights(), X, reduce)), axis=1)
        return ell, own

    def ridge(self) -> float:
        """Return ``alpha/2 ‖W‖²`` of the classes here."""
        return ridge_of(self.state, self.plan.alpha)

    def stretch(self, c: float) -> None:
        """Multiply weights and intercepts by c."""
        stretch_bias(self.state.bias, c)
        self.state.scale[:] *= c
        multiply_out(self.state)
        for ell in self.ell.values():
            ell *= c  # as it is where one class stands out

    def tell(self, key: int, shard: Shard, u: Array | None) -> Array:
        """Add what is here to the normalisers of the parts before; exact if all classes are met."""
        if self.plan.sampling == "all":
            self.ell[key] = self.judge(shard.X, shard.y)[0]
        ell = self.share(key, shard.y.size)
        return ell.copy() if u is None else np.logaddexp(u, ell)

    # --------------------------------------------------------------------------------------- files

    def save(self, path: str) -> None:
        """Write all that training has changed."""
        W, bias, scale, _ = self.state
        arrays = {"W": W, "bias": bias, "scale": scale}
        arrays |= {f"ell.{key}": ell for key, ell in self.ell.items()}
        persist.write(path, "checkpoint", persist.Contents(arrays, {"first": self._first}))

    def load(self, path: str) -> None:
        """Be as it was then."""
        arrays, about = persist.read(path, "checkpoint")
        W, bias, scale, _ = self.state
        W[:], bias[:], scale[:] = arrays["W"], arrays["bias"], arrays["scale"]
        names = [name for name in arrays if name.startswith("ell.")]
        self.ell = {int(name[4:]): np.array(arrays[name]) for name in names}
        self._first = about["first"]

    def save_local(self, path: str, u: Array) -> None:
        """Write the local variables of a shard."""
        persist.write(path, "checkpoint", persist.Contents({"u": u}, {}))

    def load_local(self, path: str) -> Array:
        """Return them."""
        return np.array(persist.read(path, "checkpoint").arrays["u"])
