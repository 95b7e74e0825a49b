"""The constants that theorems speak of."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple


class Constants(NamedTuple):
    """Bounds that hold everywhere on X, for a single sample; the worst constraint counts. inf where there is none.

    Smoothness is meant in the mean square over samples, E |grad f(x) - grad f(y)|^2 <= L_f^2 |x - y|^2: a Gaussian
    sample has no bound of its own.

    Example:
        >>> from tightrope import theory
        >>> unit = theory.Constants(D=1, G_f=1, G_h=1, sigma_f=1, sigma_h=1, sigma_lam=1, sigma=0.5)
        >>> unit.multipliers
        4.0
    """

    D: float  # diameter of X
    G_f: float  # |grad F|
    G_h: float  # |grad H_i|
    sigma_f: float  # square root of E |grad f|^2
    sigma_h: float  # square root of E |grad h_i|^2
    sigma_lam: float  # square root of E h_i^2
    L_f: float = math.inf  # smoothness of f
    L_h: float = math.inf  # smoothness of h_i
    mu: float = 0.0  # strong convexity of F
    N: int = 1  # number of constraints
    sigma: float | None = None  # Slater margin: some point has H_i <= -sigma for all i
    C: float | None = None  # sum of multipliers, also of the problem tightened by up to sigma/2

    @classmethod
    def additive(
        cls,
        noise: Sequence[float],
        *,
        size: int,
        largest: Any,
        D: Any,
        G_f: Any,
        G_h: Any,
        H: Any,
        L_f: Any = 0.0,
        L_h: Any = 0.0,
        mu: float = 0.0,
    ) -> "Constants":
        """The constants of F and H under additive noise.

        Args:
            noise: standard deviations of Gaussian noise in the slope of f, in the slopes of h and in the values of h.
            size: the number of coordinates of x.
            largest: a bound on |x|.
            D, G_f, G_h, L_f, L_h, mu: those of F and H, without noise.
            H: a bound on |H_i(x)|.
        """
        (slope, slopes, values), width = noise, math.sqrt(size)
        sigma_lam = math.hypot(H, slopes * largest, values)
        sigma_f, sigma_h = math.hypot(G_f, slope * width), math.hypot(G_h, slopes * width)
        bounds = map(float, (D, G_f, G_h, sigma_f, sigma_h, sigma_lam, L_f, L_h, mu))  # from NumPy's numbers
        return cls(**dict(zip(cls._fields, bounds, strict=False)))  # pyright: ignore[reportArgumentType]

    def around(self, reach: float, *, L_f: float | None = None, L_h: float | None = None) -> "Constants":
        """The constants on a set around X whose points are at most `reach` from X, as Split-CSOA needs them; D is still X's.

        Gradients grow by smoothness times distance, also in the mean square, and values by gradients times distance. L is
        taken to hold around X, too. Where the bounds on gradients hold everywhere, as those of piecewise linear functions
        do, give L_f = 0 or L_h = 0.
        """
        if reach == 0:
            return self
        grow_f, grow_h = (
            reach * (mine if given is None else given) for mine, given in ((self.L_f, L_f), (self.L_h, L_h))
        )
        return self._replace(
            G_f=self.G_f + grow_f,
            G_h=self.G_h + grow_h,
            sigma_f=self.sigma_f + grow_f,
            sigma_h=self.sigma_h + grow_h,
            sigma_lam=self.sigma_lam + reach * (self.sigma_h + grow_h),
        )

    def light_tailed(self) -> "Constants":
        """The constants with E exp(|.|^2/sigma^2) <= e instead of E |.|^2 <= sigma^2, where grad f, grad h_i and h_i are
        Gaussian at every point: theorems about a single run need the tails, too.

        A Gaussian vector of mean m and variance v^2 in all has E exp(|.|^2/s^2) <= e for s^2 = k (|m|^2 + v^2) with
        k = 2/(1 - e^-2): the logarithm of the left side is at most -ln(1 - 2 v^2/s^2)/2 + |m|^2/(s^2 - 2 v^2), which for
        a given |m|^2 + v^2 grows with v^2, and is 1 where all of it is variance. Where samples are bounded, their bounds
        serve as they are.
        """
        grow = math.sqrt(2 / (1 - math.exp(-2)))
        return self._replace(sigma_f=grow * self.sigma_f, sigma_h=grow * self.sigma_h, sigma_lam=grow * self.sigma_lam)

    @property
    def multipliers(self) -> float:
        """The bound C on the sum of multipliers: the given one, or the paper's 2 G_f D/sigma (Corollary 1)."""
        if self.C is not None:
            return self.C
        return multiplier_bound(self.G_f * self.D, self.checked().sigma or math.nan)  # F(x) - F* <= G_f D everywhere

    def checked(self, *smooth: str) -> "Constants":
        """Itself, where a theorem can use it; the named constants of smoothness must be finite, too."""
        for name in ("D", "G_f", "G_h", "sigma_f", "sigma_h", "sigma_lam"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"Constants: {name} is {value}; expected a positive number.")
        for name in smooth:
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(
                    f"Constants: {name} is {value}; this rule needs smooth functions, hence a finite number. Rules "
                    "for CSOA and Split-CSOA need no smoothness."
                )
        if self.sigma is None or not self.sigma > 0:
            raise ValueError(
                f"Constants: the Slater margin sigma is {self.sigma}; expected a positive number, such that some point has "
                "H_i <= -sigma for all i. Without a strictly feasible point nothing is proven."
            )
        if self.sigma > self.sigma_lam * (1 + 1e-9):
            raise ValueError(
                f"Constants: sigma is {self.sigma:.4g} and sigma_lam {self.sigma_lam:.4g}; expected sigma <= sigma_lam, "
                "because sigma_lam^2 bounds E h_i^2, also where H_i <= -sigma."
            )
        if self.N < 1 or (self.C is not None and not (math.isfinite(self.C) and self.C >= 0)):
            raise ValueError(f"Constants: N is {self.N} and C {self.C}; expected N >= 1 and C >= 0 (or None).")
        return self


def multiplier_bound(drop: float, sigma: float, upsilon: float | None = None) -> float:
    """C = drop/(sigma - upsilon), a bound on the sum of multipliers of the problem tightened by at most upsilon.

    drop is F(xtilde) - F_low, where H_i(xtilde) <= -sigma for all i and F_low is any lower bound of F*. Because
    F* <= F(x_u*) <= F(xtilde) + <lam*, H(xtilde) + upsilon 1> <= F(xtilde) - (sigma - upsilon) 1'lam*. The sum of
    multipliers is also what tightening costs: F(x_u*) - F* <= C upsilon (Corollary 1).

    Args:
        drop: F(xtilde) - F_low. G_f D is one that is always true, and gives the paper's C = 2 G_f D/sigma.
        sigma: the margin at xtilde.
        upsilon: the largest tightening; sigma/2 by default, which every rule asks for.

    Example:
        >>> from tightrope import theory
        >>> theory.multiplier_bound(drop=1.0, sigma=0.5)
        4.0
    """
    room = sigma / 2 if upsilon is None else sigma - upsilon
    if not (drop >= 0 and room > 0):
        raise ValueError(
            f"multiplier_bound: drop is {drop}, sigma {sigma} and upsilon {upsilon}; expected drop >= 0 and upsilon < sigma."
        )
    return drop / room
