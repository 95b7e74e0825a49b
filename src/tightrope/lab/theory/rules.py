"""Rules: from constants and a number of steps to coefficients, a margin, a gap, and whether all of that is proven.

In every rule B = max(sigma_f, sigma_h sqrt N), C bounds the sum of multipliers, and the two statements are about
expectations of means along the run: (1/T) sum E F(x_t) - F* <= gap and (1/T) sum E H_i(x_t) <= 0 for all i. By Jensen's
inequality they hold at the mean of the iterates, too.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tightrope._errors import whole_number
from tightrope.lab.theory.constants import Constants
from tightrope.methods import CSOA, FWCSOA, Method, SplitCSOA

_JUNG = math.sqrt(2)  # a set of diameter D lies in a ball of diameter sqrt(2) D, in any dimension (Jung's theorem)


class Condition(NamedTuple):
    """An inequality that a proof needs: left <= right.

    Example:
        >>> from tightrope.theory import Condition
        >>> Condition("upsilon <= sigma/2", 0.1, 0.25).holds
        True
    """

    name: str
    left: float
    right: float

    @property
    def holds(self) -> bool:
        """Whether it does, up to rounding."""
        return self.left <= self.right * (1 + 1e-9)

    def __str__(self) -> str:
        return f"{'holds' if self.holds else 'FAILS'}: {self.name} ({self.left:.4g} <= {self.right:.4g})"


@dataclasses.dataclass(frozen=True)
class Rule:
    """What a theorem says about a run of T steps on a problem with given constants.

    Attributes:
        name: of the method, and which version of its theorem.
        source: where the formulas are from.
        T: the number of steps.
        method: ready to run.
        coefficients: by name, as the method takes them.
        margin: the tightening upsilon.
        gap: the bound on the mean of F(x_t) - F*.
        conditions: what the proof needs at this T.
        smallest: the smallest T at which they hold; inf where there is none.
        flaw: why the statement is not proven even so; empty where it is.
        chance: of an exception, where the statement is about single runs; 0 where it is about expectations.

    Example:
        >>> from tightrope import theory
        >>> unit = theory.Constants(D=1, G_f=1, G_h=1, sigma_f=1, sigma_h=1, sigma_lam=1, sigma=0.5)
        >>> rule = theory.csoa_tight(unit, T=100_000)
        >>> rule.holds, rule.smallest, rule.method.name
        (True, 1118.0, 'csoa')
    """

    name: str
    source: str
    T: int
    method: Method
    coefficients: dict[str, float]
    margin: float
    gap: float
    conditions: tuple[Condition, ...]
    smallest: float
    flaw: str = ""
    chance: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether all conditions hold at this T."""
        return all(condition.holds for condition in self.conditions)

    @property
    def proven(self) -> bool:
        """Whether the gap and the sign of the violation are proven for this run."""
        return self.holds and not self.flaw

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value:.4g}" for name, value in self.coefficients.items())
        since = f"from T = {self.smallest:,.0f} on" if self.smallest < 1e15 else f"from T = {self.smallest:.2g} on"
        verdict = [f"The conditions hold {since}." if math.isfinite(self.smallest) else "The conditions hold at no T."]
        promise = "mean of every H_i <= 0, in expectation"
        if self.chance:
            promise = f"every H_i <= 0 at the mean, with probability {1 - self.chance:g}"
        verdict += [f"NOT PROVEN: {self.flaw}"] if self.flaw else []
        return "\n".join(
            [
                f"{self.name}, T = {self.T:,} ({self.source})",
                f"  {given}",
                f"  margin upsilon = {self.margin:.4g}; gap <= {self.gap:.4g}, {promise}",
                *(f"  {line}" for line in map(str, self.conditions)),
                *(f"  {line}" for line in verdict),
            ]
        )


# ---- CSOA --------------------------------------------------------------------------------------------------------------


def csoa_printed(constants: Constants, T: int) -> Rule:
    """CSOA as the paper prints it: Theorem 1 with K, C1, C2 of equation (kc1c2), test multipliers lam* + 1_i.

    ::

        P = 2 B^2 + 8 N sigma_lam^2,  K1 = (D^2 + 1 + C^2)(1 + C),  K2 = (P + 4 B^2 (1 + C^2))(1 + C)
        eta = C1/sqrt T,  C1 = sqrt(K1/K2),  delta = 4 B^2,  gap <= sqrt(K1 K2)/sqrt T
        upsilon = C2/sqrt T,  C2 = (K1 + K2) sqrt(K1/K2)/(2 (1 + C))

    Two of the conditions compare what is printed with what the proof gives for these steps: by E2 |lam* + 1_i|^2 is up to
    (1 + C)^2, not 1 + C^2, and by E3 C2 is off by a factor of (1 + K1/K2)/2.

    Example:
        >>> from tightrope import theory
        >>> unit = theory.Constants(D=1, G_f=1, G_h=1, sigma_f=1, sigma_h=1, sigma_lam=1, sigma=0.5)
        >>> theory.csoa_printed(unit, T=100_000).holds  # errata E2 and E3
        False
    """
    k, C, B, P = _csoa_constants(constants, T)
    K1, K2 = (k.D**2 + 1 + C**2) * (1 + C), (P + 4 * B**2 * (1 + C**2)) * (1 + C)
    c, K = math.sqrt(K1 / K2), math.sqrt(K1 * K2)
    u = (K1 + K2) * c / (2 * (1 + C))
    a, b = k.D**2 / (2 * c) + P * c / 2, 2 * B**2 * c + 1 / (2 * c)
    needed, root = a + b * (1 + C) ** 2, math.sqrt(T)
    wrong = Condition("upsilon covers the violation, E2 and E3", needed / root, u / root)
    short = Condition("the printed gap covers a + C upsilon", (a + C * u) / root, K / root)
    return _csoa(
        "CSOA, printed",
        "Theorem 1 as printed",
        T,
        c=c,
        s=1.0,
        delta=4 * B**2,
        u=u,
        gap=K,
        steepest=B,
        k=k,
        more=(wrong, short),
        flaw="Theorem 1's constants are wrong as printed (E2, E3); use the corrected or the tight rule.",
    )


def csoa_corrected(constants: Constants, T: int) -> Rule:
    """CSOA with the paper's choices and correct constants: Theorem 1 with errata E2 and E3 (P as in E17).

    ::

        P = 2 B^2 + 8 N sigma_lam^2,  K1 = (D^2 + (1 + C)^2)(1 + C),  K2 = (P + 4 B^2 (1 + C)^2)(1 + C)
        eta = C1/sqrt T,  C1 = sqrt(K1/K2),  delta = 4 B^2,  gap <= sqrt(K1 K2)/sqrt T
        upsilon = C2/sqrt T,  C2 = sqrt(K1 K2)/(1 + C)

    Needs eta <= 1/(4 B) and upsilon <= sigma/2. Testing with lam* + 1_i adds a number to multipliers, which have units:
    the rule changes when f or h is measured in other units (E25). `csoa_tight` does not.

    Example:
        >>> from tightrope import theory
        >>> unit = theory.Constants(D=1, G_f=1, G_h=1, sigma_f=1, sigma_h=1, sigma_lam=1, sigma=0.5)
        >>> theory.csoa_corrected(unit, T=100_000).smallest
        45760.0
    """
    k, C, B, P = _csoa_constants(constants, T)
    K1, K2 = (k.D**2 + (1 + C) ** 2) * (1 + C), (P + 4 * B**2 * (1 + C) ** 2) * (1 + C)
    K = math.sqrt(K1 * K2)
    given: dict[str, Any] = {"c": math.sqrt(K1 / K2), "s": 1.0, "delta": 4 * B**2, "u": K / (1 + C), "gap": K}
    return _csoa("CSOA, corrected", "Theorem 1 with E2, E3", T, **given, steepest=B, k=k)


def csoa_tight(constants: Constants, T: int, dual_scale: float | None = None) -> Rule:
    """CSOA with the best constants that the proof of Theorem 1 allows: errata E2, E3, E24 and E25.

    sigma_f and sigma_h enter where they belong instead of as their maximum B (E24), multipliers are tested at lam* + r 1_i
    with the best r (E25), and h is scaled by s, so that the dual step is s^2 eta. For eta = c/sqrt T::

        a = D^2/(2 c) + (sigma_f^2 + 4 N s^2 sigma_lam^2) c,    b = 2 N s^2 sigma_h^2 c + 1/(2 c)
        upsilon sqrt T = (2/s) ( b C/s + sqrt(b (a + b C^2/s^2)) ),    r = sqrt(a/b + C^2/s^2)
        gap sqrt T <= a + C upsilon sqrt T,    delta = 4 N s^2 sigma_h^2

    with c and s such that the gap is smallest; all three are sums of products of powers, so their logarithms are convex in
    (log c, log s) and there is one minimum. Needs eta <= 1/(4 s sigma_h sqrt N) and upsilon <= sigma/2. Measuring
    f, h or x in other units changes nothing but units.

    Args:
        constants: of the problem.
        T: the number of steps.
        dual_scale: s, where it is to be kept; 1 is the paper's single step.

    Example:
        >>> from tightrope import theory
        >>> unit = theory.Constants(D=1, G_f=1, G_h=1, sigma_f=1, sigma_h=1, sigma_lam=1, sigma=0.5)
        >>> theory.csoa_tight(unit, T=100_000).smallest
        1118.0
    """
    k, C, *_ = _csoa_constants(constants, T)
    start = [k.D / k.sigma_f, k.sigma_f / (k.sigma_lam * math.sqrt(k.N))]  # the units of c and s
    if dual_scale is not None:
        (c,), s = _best(lambda z: _tight_bounds(k, C, z[0], dual_scale)[1], start[:1]), dual_scale
    else:
        c, s = _best(lambda z: _tight_bounds(k, C, *z)[1], start)
    u, gap = _tight_bounds(k, C, c, s)
    steepest = s * k.sigma_h * math.sqrt(k.N)
    given: dict[str, Any] = {"c": c, "s": s, "delta": 4 * steepest**2, "u": u, "gap": gap, "steepest": steepest}
    return _csoa("CSOA, tight", "Theorem 1 with E2, E3, E24, E25", T, **given, k=k, called="s sigma_h sqrt N")


def _tight_bounds(k: Constants, C: float, c: float, s: float) -> tuple[float, float]:
    """upsilon sqrt T and gap sqrt T of `csoa_tight` for eta = c/sqrt T and a dual step of s^2 eta."""
    a = k.D**2 / (2 * c) + (k.sigma_f**2 + 4 * k.N * (s * k.sigma_lam) ** 2) * c
    b = 2 * k.N * (s * k.sigma_h) ** 2 * c + 1 / (2 * c)
    u = (2 / s) * (b * C / s + math.sqrt(b * (a + b * (C / s) ** 2)))
    return u, a + C * u


def _csoa_constants(constants: Constants, T: int) -> tuple[Constants, float, float, float]:
    """The constants, checked, with C, B and P of Theorem 1."""
    whole_number("theory", "T", T)
    k = constants.checked()
    B = max(k.sigma_f, k.sigma_h * math.sqrt(k.N))
    return k, k.multipliers, B, 2 * B**2 + 8 * k.N * k.sigma_lam**2


def _csoa(
    name: str,
    source: str,
    T: int,
    *,
    c: float,
    s: float,
    delta: float,
    u: float,
    gap: float,
    steepest: float,
    k: Constants,
    called: str = "B",
    more: tuple[Condition, ...] = (),
    flaw: str = "",
) -> Rule:
    """A rule for CSOA, whose steps, margin and gap all fall as 1/sqrt T; the two conditions of Lemma 2 and Theorem 1."""
    root, sigma = math.sqrt(T), k.sigma or math.nan
    method = CSOA(eta0=c, delta=delta, upsilon0=u, dual_scale=s)
    names = ("eta0", "delta", "upsilon0", "dual_scale")
    conditions = (
        Condition(f"eta <= 1/(4 {called})", c / root, 1 / (4 * steepest)),
        Condition("upsilon <= sigma/2", u / root, sigma / 2),
        *more,
    )
    never = any(not condition.holds for condition in more)  # both of their sides fall alike
    smallest = math.inf if never else _whole(max((2 * u / sigma) ** 2, (4 * steepest * c) ** 2))
    given = {key: getattr(method, key) for key in names}
    return Rule(name, source, T, method, given, u / root, gap / root, conditions, smallest, flaw)


# ---- FW-CSOA -----------------------------------------------------------------------------------------------------------


def fw_csoa_printed(constants: Constants, T: int) -> Rule:
    """FW-CSOA as the paper prints it: Theorem 2 with equation (final_cons). Never proven (E1).

    ::

        L = max(L_f, L_h sqrt N, 1),  eta = T^-3/4/(6 L D),  rho = T^-1/2/(8 B),  delta = 18 L^2 D^2
        A = (L D/16)(96 G_f + 24 sigma_f^2 + 11) + (N sigma_lam^2/(3 L D))(17/24 + 2 N sigma_h^2)
            + (N G_h^2 D + 4 D B)/(3 L)
        upsilon = C2hat T^-1/4,  C2hat = A + (15/4) L D (1 + C^2),  gap <= (A + C C2hat) T^-1/4

    The proof needs 2 A_2/eta + 2 delta^2 eta^2 <= delta, and with these steps 2 A_2/eta = (9/2) L^2 D^2 (T + sqrt T + 1):
    it fails at every T. No other steps of the printed form mend it; `fw_csoa_two_scale` does.

    Example:
        >>> from tightrope import theory
        >>> unit = theory.Constants(D=1, G_f=1, G_h=1, sigma_f=1, sigma_h=1, sigma_lam=1, L_f=1, L_h=1, sigma=0.5)
        >>> theory.fw_csoa_printed(unit, T=10**9).smallest
        inf
    """
    whole_number("theory", "T", T)
    k = constants.checked("L_f", "L_h")
    C, B, L = k.multipliers, max(k.sigma_f, k.sigma_h * math.sqrt(k.N)), max(k.L_f, k.L_h * math.sqrt(k.N), 1.0)
    LD = L * k.D
    A = (
        LD / 16 * (96 * k.G_f + 24 * k.sigma_f**2 + 11)
        + k.N * k.sigma_lam**2 / (3 * LD) * (17 / 24 + 2 * k.N * k.sigma_h**2)
        + (k.N * k.G_h**2 * k.D + 4 * k.D * B) / (3 * L)
    )
    u = A + 15 / 4 * LD * (1 + C**2)
    eta, delta, quarter = T**-0.75 / (6 * LD), 18 * LD**2, T**-0.25
    method = FWCSOA("paper", eta0=1 / (6 * LD), rho0=1 / (8 * B), delta=delta, upsilon0=u)
    sides = 4.5 * LD**2 * (T + math.sqrt(T) + 1) + 2 * (delta * eta) ** 2, delta
    conditions = (
        Condition("2 A_2/eta + 2 delta^2 eta^2 <= delta", *sides),
        Condition("upsilon <= sigma/2", u * quarter, (k.sigma or math.nan) / 2),
    )
    given = {name: getattr(method, name) for name in ("eta0", "rho0", "delta", "upsilon0")}
    flaw = (
        "the proof of Theorem 2 drops the multipliers' norms by an inequality that is false at every T (E1). The method "
        "works in practice; fw_csoa_two_scale is the schedule with a proof."
    )
    gap = (A + C * u) * quarter
    return Rule(
        "FW-CSOA, printed", "Theorem 2 as printed", T, method, given, u * quarter, gap, conditions, math.inf, flaw
    )


class _TwoScale(NamedTuple):
    """Unknowns of `fw_csoa_two_scale`, for h scaled by s."""

    eta: float
    gamma: float
    s: float
    B: float  # at least max(sigma_f, s sigma_h sqrt N)
    L: float  # at least max(L_f, s L_h sqrt N)


def fw_csoa_two_scale(constants: Constants, T: int) -> Rule:
    """FW-CSOA with a dual step far below the Frank-Wolfe step: the repaired theorem (docs/theory.md, "Two scales").

    For h scaled by s, with S = 2 sqrt N s sigma_lam and L >= max(L_f, s L_h sqrt N)::

        rho = sqrt 3 eta D L/B,  kappa = (8 sqrt 3 eta B D L)^-1/2,  r = 6 D sqrt(eta B D L) + eta D^2 L
        A = gamma S^2 T + (G_f D + 2 gamma S^2 T + S^2/r)/eta + (3/4) eta D^2 L T + D T/kappa
            + (D kappa/2)(B^2/rho + 8 B^2 gamma^2 S^2 T/rho)
        b = 1/(2 gamma) + r T/2
        upsilon = (2/(s T)) ( b C/s + sqrt(b (A + b C^2/s^2)) ),    gap <= A/T + C upsilon

    with eta, gamma, s, and L where it is free (linear functions), such that the gap is smallest; gap and margin fall as
    T^-1/4. In the units of h the dual step is s^2 gamma and the regularisation r/s^2. Needs eta <= 1, rho <= 1,
    gamma r <= 1/8, 30 B^3 D gamma^2 <= L eta (all four are kept by the choice of steps) and upsilon <= sigma/2.

    Example:
        >>> from tightrope import theory
        >>> unit = theory.Constants(D=1, G_f=1, G_h=1, sigma_f=1, sigma_h=1, sigma_lam=1, L_f=1, L_h=1, sigma=0.5)
        >>> theory.fw_csoa_two_scale(unit, T=10**9).method.schedule
        'two_scale'
    """
    whole_number("theory", "T", T)
    k = constants.checked("L_f", "L_h")
    steps, u, gap = _two_scale_at(k, T)
    (eta, gamma, s, *_), (r, rho, _) = steps, _two_scale_derived(k, steps)
    method = FWCSOA(
        "two_scale",
        eta0=eta * T**0.5,
        rho0=rho * T**0.5,
        delta=r / s**2 * T**0.25,
        upsilon0=u * T**0.25,
        gamma0=s**2 * gamma * T**0.75,
    )
    conditions = (*_two_scale_conditions(k, steps), Condition("upsilon <= sigma/2", u, (k.sigma or math.nan) / 2))
    given = {name: getattr(method, name) for name in ("eta0", "gamma0", "rho0", "delta", "upsilon0")}
    smallest = _smallest(lambda t: 2 * _two_scale_at(k, t)[1] / (k.sigma or math.nan))
    source = "the repaired theorem, docs/theory.md"
    return Rule("FW-CSOA, two scales", source, T, method, given, u, gap, conditions, smallest)


def _two_scale_at(k: Constants, T: float) -> tuple[_TwoScale, float, float]:
    """The steps of the smallest gap at T, with upsilon and the gap."""
    root = math.sqrt(k.N)
    B, s = k.sigma_f, k.sigma_f / (k.sigma_h * root)
    L = max(k.L_f, s * k.L_h * root) or B / k.D  # linear functions: any L is true
    eta = min(1.0, B / (k.D * L)) / math.sqrt(T)
    start = _TwoScale(eta, math.sqrt(L * eta / (30 * B**3 * k.D)), s, B, L)

    def side_conditions(z: Sequence[float]) -> list[float]:
        steps = _TwoScale(*z)
        at_least = [(k.sigma_f, steps.B), (steps.s * k.sigma_h * root, steps.B), (k.L_f, steps.L)]
        at_least += [(steps.s * k.L_h * root, steps.L)]
        at_least += [(c.left, c.right) for c in _two_scale_conditions(k, steps)]
        return [math.log(right / left) for left, right in at_least if left > 0]

    steps = _TwoScale(*_best(lambda z: _two_scale_bounds(k, T, _TwoScale(*z))[1], start, side_conditions))
    return steps, *_two_scale_bounds(k, T, steps)


def _two_scale_derived(k: Constants, steps: _TwoScale) -> tuple[float, float, float]:
    """r, rho and kappa."""
    eta, _, _, B, L = steps
    q = eta * B * k.D * L
    r = 6 * k.D * math.sqrt(q) + eta * k.D**2 * L
    return r, math.sqrt(3) * eta * k.D * L / B, (8 * math.sqrt(3) * q) ** -0.5


def _two_scale_conditions(k: Constants, steps: _TwoScale) -> tuple[Condition, ...]:
    eta, gamma, _, B, L = steps
    r, rho, _ = _two_scale_derived(k, steps)
    return (
        Condition("eta <= 1", eta, 1.0),
        Condition("rho <= 1", rho, 1.0),
        Condition("gamma r <= 1/8", gamma * r, 1 / 8),
        Condition("30 B^3 D gamma^2 <= L eta", 30 * B**3 * k.D * gamma**2, L * eta),
    )


def _two_scale_bounds(k: Constants, T: float, steps: _TwoScale) -> tuple[float, float]:
    """upsilon and gap."""
    eta, gamma, s, B, L = steps
    r, rho, kappa = _two_scale_derived(k, steps)
    S2, C = 4 * k.N * (s * k.sigma_lam) ** 2, k.multipliers / s
    A = (
        gamma * S2 * T
        + (k.G_f * k.D + 2 * gamma * S2 * T + S2 / r) / eta
        + 0.75 * eta * k.D**2 * L * T
        + k.D * T / kappa
        + (k.D * kappa / 2) * (B**2 + 8 * B**2 * gamma**2 * S2 * T) / rho
    )
    b = 1 / (2 * gamma) + r * T / 2
    u = 2 / (s * T) * (b * C + math.sqrt(b * (A + b * C**2)))
    return u, A / T + k.multipliers * u


# ---- Split-CSOA --------------------------------------------------------------------------------------------------------


def split_csoa(constants: Constants, T: int, D_Y: float | None = None) -> Rule:
    """Split-CSOA, projection-free at T^-1/2 (docs/projection_free.md): x in X, a copy y in a simple set Y around X.

    With r > 0, R = C + r, M = G_f + G_h R, all constants valid on Y::

        V_y = 3 (sigma_f^2 + N R^2 sigma_h^2 + M^2),  V_l = 4 N sigma_lam^2
        a = ( D_Y sqrt V_y + R sqrt V_l + M D_Y )/sqrt T
        eta = D_Y/sqrt(V_y T),  gamma = R/sqrt(V_l T),  kappa = M/(D_Y sqrt T),  |lam| <= R,  |q| <= M
        upsilon = a/r <= sigma/2,    E F(xbar) - F* <= a (1 + C/r)

    with the r of the smallest gap. The statements are about the mean xbar of x_1..x_T alone.

    Args:
        constants: of the problem, on Y (`Constants.around`).
        T: the number of steps.
        D_Y: the diameter of Y; by default that of the smallest ball around X at worst, sqrt 2 D.

    Example:
        >>> from tightrope import theory
        >>> unit = theory.Constants(D=1, G_f=1, G_h=1, sigma_f=1, sigma_h=1, sigma_lam=1, sigma=0.5)
        >>> theory.split_csoa(unit, T=10**6).holds
        True
    """
    k, C, D_Y = _split_given("split_csoa", constants, T, D_Y)
    (r,) = _best(lambda z: _split_bounds(k, C, D_Y, z[0])[1], [k.sigma_f * k.D / k.sigma_lam])
    u, gap = _split_bounds(k, C, D_Y, r)
    root, sigma = math.sqrt(T), k.sigma or math.nan
    smallest = _whole((2 * u / sigma) ** 2)
    return _split(
        "Split-CSOA", "its theorem, docs/projection_free.md", k, T, D_Y, C + r, u / root, gap / root, smallest
    )


def split_csoa_one_run(constants: Constants, T: int, p: float = 0.05, D_Y: float | None = None) -> Rule:
    """Split-CSOA for the run at hand: with probability 1 - p, H_i(xbar) <= 0 for all i and F(xbar) - F* <= gap, at once.

    The steps of `split_csoa` with a wider margin (docs/projection_free.md, "One run"). With l = ln((N + 4)/p) and
    V_u = 2 (sigma_f^2 + N R^2 sigma_h^2)::

        a_p = ( (D_Y sqrt V_y + R sqrt V_l)(1 + l/(2 T)) + M D_Y + D_Y sqrt(12 V_u l) + R sqrt(6 V_l l) )/sqrt T
        upsilon = a_p/r <= sigma/2,    F(xbar) - F* <= a_p (1 + C/r)

    Args:
        constants: of the problem, on Y, where sigma_f, sigma_h and sigma_lam bound tails: E exp(|.|^2/sigma^2) <= e at
            every point of Y (`Constants.light_tailed` makes them of those of Gaussian samples).
        T: the number of steps.
        p: the probability of an exception.
        D_Y: the diameter of Y; by default that of the smallest ball around X at worst, sqrt 2 D.

    Example:
        >>> from tightrope import theory
        >>> unit = theory.Constants(D=1, G_f=1, G_h=1, sigma_f=1, sigma_h=1, sigma_lam=1, sigma=0.5)
        >>> theory.split_csoa_one_run(unit, T=10**6, p=0.01).chance
        0.01
    """
    if not 0 < p < 1:
        raise ValueError(f"split_csoa_one_run: p is {p}; expected a probability between 0 and 1.")
    k, C, D_Y = _split_given("split_csoa_one_run", constants, T, D_Y)

    def at(T: float) -> tuple[float, float, float]:
        """r, upsilon and the gap."""
        (r,) = _best(lambda z: _split_bounds(k, C, D_Y, z[0], T, p)[1], [k.sigma_f * k.D / k.sigma_lam])
        u, gap = _split_bounds(k, C, D_Y, r, T, p)
        return r, u / math.sqrt(T), gap / math.sqrt(T)

    r, u, gap = at(T)
    smallest = _smallest(lambda t: 2 * at(t)[1] / (k.sigma or math.nan))
    source = "the theorem on one run, docs/projection_free.md"
    rule = _split("Split-CSOA, one run", source, k, T, D_Y, C + r, u, gap, smallest)
    return dataclasses.replace(rule, chance=p)


def _split_given(owner: str, constants: Constants, T: int, D_Y: float | None) -> tuple[Constants, float, float]:
    """The constants, checked, with C and D_Y."""
    whole_number("theory", "T", T)
    k = constants.checked()
    D_Y = _JUNG * k.D if D_Y is None else D_Y
    if not k.D * (1 - 1e-6) <= D_Y < math.inf:  # up to the rounding of a set in float32
        raise ValueError(f"{owner}: D_Y is {D_Y}; expected at least D = {k.D:.4g}, because Y contains X.")
    return k, k.multipliers, D_Y


def _split_sizes(k: Constants, R: float) -> tuple[float, float, float]:
    """M, V_y and V_l."""
    M = k.G_f + k.G_h * R
    return M, 3 * (k.sigma_f**2 + k.N * (R * k.sigma_h) ** 2 + M**2), 4 * k.N * k.sigma_lam**2


def _split_bounds(
    k: Constants, C: float, D_Y: float, r: float, T: float = math.inf, p: float = math.inf
) -> tuple[float, float]:
    """upsilon sqrt T and gap sqrt T: in expectation, or, with T and p, for a run."""
    M, V_y, V_l = _split_sizes(k, C + r)
    descent, ascent = D_Y * math.sqrt(V_y), (C + r) * math.sqrt(V_l)
    a = descent + ascent + M * D_Y
    if p < 1:
        l, V_u = math.log((k.N + 4) / p), 2 * (k.sigma_f**2 + k.N * ((C + r) * k.sigma_h) ** 2)
        a += (descent + ascent) * l / (2 * T) + D_Y * math.sqrt(12 * V_u * l) + ascent * math.sqrt(6 * l)
    return a / r, a * (1 + C / r)


def _split(
    name: str, source: str, k: Constants, T: int, D_Y: float, R: float, u: float, gap: float, smallest: float
) -> Rule:
    """A rule for Split-CSOA with these radii, margin and gap."""
    (M, V_y, V_l), root = _split_sizes(k, R), math.sqrt(T)
    given: dict[str, Any] = {
        "eta0": D_Y / math.sqrt(V_y),
        "gamma0": R / math.sqrt(V_l),
        "kappa0": M / D_Y,
        "upsilon0": u * root,
    }
    given |= {"lam_radius": R, "q_radius": M}
    conditions = (Condition("upsilon <= sigma/2", u, (k.sigma or math.nan) / 2),)
    return Rule(name, source, T, SplitCSOA(**given), given, u, gap, conditions, smallest)


# ---- the best of the unknowns ------------------------------------------------------------------------------------------


def _best(
    bound: Callable[[Sequence[float]], float],
    start: Sequence[float],
    conditions: Callable[[Sequence[float]], list[float]] | None = None,
) -> list[float]:
    """The positive unknowns that minimise a bound while the conditions are >= 0; `start` has their units.

    In logarithms a sum of products of powers is convex, and one local search from anywhere finds its minimum.
    """
    from scipy.optimize import minimize

    units, origin = np.asarray(start, float), math.log(bound(start))

    def at(z: np.ndarray) -> list[float]:
        return (units * np.exp(z)).tolist()

    limits = [] if conditions is None else [{"type": "ineq", "fun": lambda z: np.array(conditions(at(z)))}]
    z = np.zeros(len(units))
    for _ in range(20):  # a search that stops on a slope goes on from where it stopped
        found = minimize(
            lambda z: math.log(bound(at(z))) - origin,
            z,
            method="SLSQP",
            bounds=[(v - 5, v + 5) for v in z],
            constraints=limits,
            options={"ftol": 1e-13, "maxiter": 300},
        )
        moved, z = float(np.max(np.abs(found.x - z))), found.x
        if moved < 1e-5:
            break
    return at(z)


_SEARCH = 1e-6
"""To this a T is known at which a condition begins to hold that rests on a search for the best steps; by hand."""


def _smallest(ratio: Callable[[float], float]) -> float:
    """The smallest whole T with ratio(T) <= 1, for a ratio that falls; inf where it does not within 60 decades."""
    from scipy.optimize import brentq

    def log_ratio(z: float) -> float:
        return math.log(ratio(math.exp(z)))

    low, high = 0.0, math.log(1e60)
    if log_ratio(low) <= 0:
        return 1.0
    if log_ratio(high) > 0:
        return math.inf
    root: Any = brentq(log_ratio, low, high, xtol=1e-10)
    return _whole(math.exp(root) * (1 + _SEARCH))


def _whole(T: float) -> float:
    """The next whole number, up to rounding."""
    return float(math.ceil(T * (1 - 1e-9)))


RULES: dict[str, Callable[..., Rule]] = {
    "csoa printed": csoa_printed,
    "csoa corrected": csoa_corrected,
    "csoa tight": csoa_tight,
    "fw-csoa printed": fw_csoa_printed,
    "fw-csoa two scales": fw_csoa_two_scale,
    "split-csoa": split_csoa,
    "split-csoa one run": split_csoa_one_run,
}
"""Every rule by name, each a function of constants and T."""
