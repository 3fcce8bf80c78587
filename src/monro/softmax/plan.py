"""The plan of a softmax fit: its settings, with every "auto" and None resolved."""

from typing import NamedTuple


class Plan(NamedTuple):
    """The settings of a fit."""

    solver: str
    link: str
    posterior: str | None
    formulation: str
    sampling: str
    examples: int  # per step
    classes: int  # drawn per step
    eta0: float  # initial learning rate; NaN until a search has found it
    epochs: int  # over which the rate falls to 0, unless it has a decay
    exact_epochs: int  # last epochs, with all classes at every step
    decay: float | None  # factor of the rate per epoch
    delta: float  # threshold δ of U-max
    radius: float | None  # bound on the weights of each class
    alpha: float  # strength of the penalty
    damping: float  # δ, relative learning rate of intercepts; 0 without intercepts
    stiffness: float  # κ of the normaliser of the "raman" formulation; 0: always exact
    dtype: str
    l1_ratio: float = 0.0  # the share of the L1 norm in the penalty; the rest is a ridge
    coordinate_epochs: int = 0  # last epochs, of coordinate descent
    weights: str = "dense"
    because: str = ""  # why weights are dense

    @property
    def is_raman(self) -> bool:
        """Whether steps are on Raman et al.'s double sum (paper 000, eq. 8)."""
        return self.formulation == "raman"

    @property
    def l1_strength(self) -> float:
        """The factor of ``‖W‖₁`` in the penalty."""
        return self.alpha * self.l1_ratio

    @property
    def ridge_strength(self) -> float:
        """The factor of ``‖W‖²/2`` in the penalty."""
        return self.alpha * (1.0 - self.l1_ratio)

    @property
    def uses_all_classes(self) -> bool:
        """Whether every step uses all classes."""
        return self.sampling == ALL

    def with_all_classes(self) -> "Plan":
        """Return this plan with all classes at every step and exact normalisers."""
        return self._replace(sampling=ALL, stiffness=0.0)

    def rate_at(self, t: float, before: int = 0) -> float:
        """Return the learning rate after t epochs, `before` of which belong to earlier fits.

        Without a decay, it falls to 0 with the square of the time left.
        """
        if self.decay is not None:
            return self.eta0 * self.decay ** int(t)
        return self.eta0 * max(0.0, 1.0 - t / (before + self.epochs)) ** 2

    def with_rate_at(self, t: int, rate: float) -> "Plan":
        """Return this plan with the η0 that gives `rate` after t epochs of earlier fits."""
        return self._replace(eta0=rate / self._replace(eta0=1.0).rate_at(t, t))


ALL = "all"  # sampling: every class at every step
