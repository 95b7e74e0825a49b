"""Every formula of `tr.theory` against a second derivation, the paper's own numbers, units, and runs."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

import tightrope as tr
from studies import projection_free as free
from studies import theory as study
from tightrope import theory
from tightrope.problems import PROBLEMS
from tightrope.theory import Constants

UNIT = Constants(D=1, G_f=1, G_h=1, sigma_f=1, sigma_h=1, sigma_lam=1, L_f=1, L_h=1, sigma=0.5)
ODD = Constants(
    D=3.0, G_f=0.7, G_h=1.3, sigma_f=0.9, sigma_h=2.1, sigma_lam=1.7, L_f=0.4, L_h=0.8, N=3, sigma=0.6, C=5.0
)
CASES = pytest.mark.parametrize("k", [UNIT, ODD], ids=["unit", "odd"])
T = 250_000


def logs_minimised(bound, start, **options):
    """The smallest value of a function of positive numbers, by a search without derivatives."""
    options = {"xatol": 1e-9, "fatol": 1e-13, "maxiter": 20_000, "maxfev": 20_000, "adaptive": True} | options
    z = np.log(start)
    for _ in range(4):
        z = minimize(lambda z: math.log(bound(*np.exp(z))), z, method="Nelder-Mead", options=options).x
    return bound(*np.exp(z)), np.exp(z)


# ---- CSOA --------------------------------------------------------------------------------------------------------------


def lemma_2(k, B_f, B_h, eta, steps, length):
    """The right-hand side of Lemma 2, summed over steps, for a test multiplier of this length, all from gradients:
    E |grad_x|^2 <= 2 B_f^2 + 2 B_h^2 |lam|^2 and E |grad_lam|^2 <= 8 N sigma_lam^2 + 2 (delta eta |lam|)^2."""
    delta = 4 * B_h**2
    squares = 2 * B_f**2 + 8 * k.N * k.sigma_lam**2
    return k.D**2 / (2 * eta) + eta * steps * squares / 2 + (delta * eta * steps / 2 + 1 / (2 * eta)) * length**2


@CASES
def test_the_corrected_rule_is_the_best_step_of_the_raw_bound(k):
    C, B = k.multipliers, max(k.sigma_f, k.sigma_h * math.sqrt(k.N))

    def margin(eta):  # what covers the violation, by lam* + 1_i, whose length is at most 1 + C (E2)
        return lemma_2(k, B, B, eta, T, 1 + C) / T

    def gap(eta):  # the paper's majorant: K_1/(2 eta T) + K_2 eta/2 is (1 + C) times the margin (E16)
        return (1 + C) * margin(eta)

    best: Any = minimize_scalar(lambda z: math.log(gap(math.exp(z))), bracket=(-8, -6), tol=1e-12)
    rule = theory.csoa_corrected(k, T)
    assert rule.gap == pytest.approx(math.exp(best.fun), rel=1e-9)
    assert rule.margin == pytest.approx(margin(math.exp(best.x)), rel=1e-6)
    assert rule.coefficients["eta0"] / math.sqrt(T) == pytest.approx(math.exp(best.x), rel=1e-5)
    assert rule.coefficients["delta"] == 4 * B**2
    exact = lemma_2(k, B, B, math.exp(best.x), T, 0) / T + C * rule.margin
    assert exact <= rule.gap  # E16


@CASES
def test_the_tight_rule_is_the_best_of_all_that_the_proof_leaves_free(k):
    """Scale h by s, test with lam* + r 1_i: minimise over r the margin, and over eta and s the gap, all numerically."""
    C = k.multipliers

    def margin(eta, s):
        scaled = k._replace(sigma_lam=s * k.sigma_lam, sigma_h=s * k.sigma_h)
        B_h = scaled.sigma_h * math.sqrt(k.N)

        def with_r(r):
            return lemma_2(scaled, k.sigma_f, B_h, eta, T, C / s + r) / (T * r * s)

        best: Any = minimize_scalar(lambda z: math.log(with_r(math.exp(z))), bracket=(-1, 1), tol=1e-12)
        return math.exp(best.fun)

    def gap(eta, s):
        scaled = k._replace(sigma_lam=s * k.sigma_lam)
        return lemma_2(scaled, k.sigma_f, 1.0, eta, T, 0) / T + C * margin(eta, s)

    best, (_, s) = logs_minimised(gap, [1e-3, 1.0], xatol=1e-7, fatol=1e-11)
    rule = theory.csoa_tight(k, T)
    assert rule.gap == pytest.approx(best, rel=1e-7)
    assert rule.coefficients["dual_scale"] == pytest.approx(s, rel=1e-2)
    assert rule.margin == pytest.approx(
        margin(rule.coefficients["eta0"] / math.sqrt(T), rule.coefficients["dual_scale"])
    )
    shrink = rule.coefficients["delta"]  # what makes the squares of multipliers cancel, at the largest step allowed
    B_h, largest = rule.coefficients["dual_scale"] * k.sigma_h * math.sqrt(k.N), rule.conditions[0].right
    assert 2 * B_h**2 + 2 * (shrink * largest) ** 2 == pytest.approx(shrink)
    assert isinstance(rule.method, tr.CSOA)
    assert rule.method.steps.tightening(T) == pytest.approx(rule.margin)


@CASES
def test_what_is_printed_differs_as_the_errata_say(k):
    C = k.multipliers
    printed, corrected = theory.csoa_printed(k, T), theory.csoa_corrected(k, T)
    c1, K = printed.coefficients["eta0"], printed.gap * math.sqrt(T)  # sqrt(K1/K2) and sqrt(K1 K2)
    assert printed.margin * math.sqrt(T) == pytest.approx(K / (1 + C) * (1 + c1**2) / 2, rel=1e-12)  # E3
    K1, K2 = K * c1, K / c1
    assert pytest.approx((k.D**2 + 1 + C**2) * (1 + C)) == K1
    larger = (K2 / (1 + C) - 4 * max(k.sigma_f, k.sigma_h * math.sqrt(k.N)) ** 2 * (1 + C**2)) / 2  # P/2 of E17
    assert larger == pytest.approx(max(k.sigma_f, k.sigma_h * math.sqrt(k.N)) ** 2 + 4 * k.N * k.sigma_lam**2)
    assert not printed.proven
    assert printed.smallest == math.inf
    assert corrected.margin > printed.margin
    assert "NOT PROVEN" in str(printed)
    assert {c.name: c.holds for c in printed.conditions}["upsilon covers the violation, E2 and E3"] is False


def test_the_smallest_T_of_the_unit_problem():
    found = [
        theory.csoa_corrected(UNIT, T).smallest,
        theory.csoa_tight(UNIT, T, dual_scale=1.0).smallest,
        theory.csoa_tight(UNIT, T).smallest,
    ]
    assert found == pytest.approx([4.6e4, 1.7e4, 1.1e3], rel=0.03)


@pytest.mark.parametrize(
    ("B", "C", "corrected", "kept"),
    [(50**0.5, 400, 8.4e15, 8.4e11), (50**0.5, 14.4, 2.6e10, 1.2e9), (1, 14.4, 5.2e8, 2.4e7)],
)
def test_the_smallest_T_of_problems_like_adult(B, C, corrected, kept):
    """sigma = 0.05, D = 10; the best dual scale would need sigma_h, the first two columns do not."""
    k = Constants(D=10, G_f=1, G_h=1, sigma_f=B, sigma_h=B / 2**0.5, sigma_lam=1, N=2, sigma=0.05, C=C)
    assert theory.csoa_corrected(k, T).smallest == pytest.approx(corrected, rel=0.03)
    assert theory.csoa_tight(k, T, dual_scale=1.0).smallest == pytest.approx(kept, rel=0.03)
    assert theory.csoa_tight(k, T).smallest < theory.csoa_tight(k, T, dual_scale=1.0).smallest / 3


# ---- FW-CSOA -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 100, 10**6, 10**12])
def test_theorem_2_is_refused_at_every_T(steps):
    """2 A_2/eta, from A_2 and the paper's eps_1, eps_2, rho and eta, is not what the closed form of E1 is made of."""
    k = ODD
    L, B = max(k.L_f, k.L_h * math.sqrt(k.N), 1), max(k.sigma_f, k.sigma_h * math.sqrt(k.N))
    eta, rho, eps1, eps2 = steps**-0.75 / (6 * L * k.D), steps**-0.5 / (8 * B), steps**-0.5 / (16 * B), steps**-0.5 / 8
    LD2 = (L * k.D) ** 2
    A_2 = (eps2 / 2 + 0.75 * eta**2 * LD2 + 8 * eps1 * rho * B**2 + 3 * eps1 * eta**2 / rho * LD2) / eta
    rule = theory.fw_csoa_printed(k, steps)
    first, delta = rule.conditions[0], rule.coefficients["delta"]
    assert first.left == pytest.approx(2 * A_2 / eta + 2 * (delta * eta) ** 2)
    assert first.left > first.right == delta == 18 * LD2
    assert not first.holds
    assert not rule.proven
    assert rule.smallest == math.inf
    assert "false at every T" in str(rule)


def two_scale_pieces(k, steps, eta, gamma, s, L):
    """The repaired proof, piece by piece: coefficients of 1 and of Lam = sum E|lam_t|^2, for h scaled by s."""
    B, S = max(k.sigma_f, s * k.sigma_h * math.sqrt(k.N)), 2 * math.sqrt(k.N) * s * k.sigma_lam
    D, q = k.D, eta * k.D * L
    r = 6 * D * math.sqrt(q * B) + q * D
    dual = np.array([gamma * S**2 * steps, gamma * r**2])
    abel = np.array([(k.G_f * D + 2 * gamma * S**2 * steps + S**2 / r) / eta, 0.0])
    curvature = np.array([0.75 * eta * D**2 * L * steps, 0.25 * eta * D**2 * L])

    def tracking(rho):  # of sum E|e_t|^2
        first = np.array([B**2 / rho + 4 * rho * B**2 * steps, 4 * rho * B**2])
        moved = np.array([12 * steps, 6]) * q**2 / rho
        return first + moved + 8 * B**2 * gamma**2 * np.array([S**2 * steps, r**2]) / rho

    rho, kappa = math.sqrt(3) * q / B, (8 * math.sqrt(3) * q * B) ** -0.5
    young = D * (kappa / 2 * tracking(rho) + np.array([steps / (2 * kappa), 0.0]))  # |e| <= kappa |e|^2/2 + 1/(2 kappa)
    return dual + abel + curvature + young, r, rho


@CASES
@pytest.mark.parametrize("steps", [10**4, 10**9])
def test_the_two_scale_rule_is_the_sum_of_its_pieces(k, steps):
    rule = theory.fw_csoa_two_scale(k, steps)
    method, C = rule.method, k.multipliers
    assert isinstance(method, tr.FWCSOA)
    eta, dual_step, rho, shrink, upsilon = (float(v) for v in method.sizes(1, float(steps)))

    def of(s, L):
        (A, multipliers), r, rho = two_scale_pieces(k, steps, eta, dual_step / s**2, s, L)
        b = s**2 / (2 * dual_step) + r * steps / 2
        margin = 2 / (s * steps) * (b * C / s + math.sqrt(b * (A + b * (C / s) ** 2)))
        return A / steps + C * margin, margin, r, rho, multipliers

    s, L = math.sqrt(shrink), 0.0  # r/s^2 = delta T^-1/4, where r depends on s by B alone: by fixed point
    for _ in range(200):
        B = max(k.sigma_f, s * k.sigma_h * math.sqrt(k.N))
        L = rho * B / (math.sqrt(3) * eta * k.D)
        s = math.sqrt(of(s, L)[2] * dual_step / shrink)
    gap, margin, r, same_rho, multipliers = of(s, L)
    assert max(k.L_f, s * k.L_h * math.sqrt(k.N)) <= L * (1 + 1e-6)
    assert (gap, margin, same_rho) == pytest.approx((rule.gap, rule.margin, rho), rel=1e-5)
    assert multipliers <= r / 2  # so that the regularisation swallows the multipliers' squares
    assert upsilon == pytest.approx(rule.margin, rel=1e-5)
    assert all(condition.holds for condition in rule.conditions[:-1])


@CASES
def test_no_other_steps_give_the_two_scale_rule_a_smaller_gap(k):
    steps, rng = 10**8, np.random.default_rng(0)
    rule, C = theory.fw_csoa_two_scale(k, steps), k.multipliers

    def gap(eta, gamma, s, extra):
        L = max(k.L_f, s * k.L_h * math.sqrt(k.N)) + extra
        (A, multipliers), r, rho = two_scale_pieces(k, steps, eta, gamma, s, L)
        if multipliers > r / 2 or rho > 1 or eta > 1 or gamma * r > 1 / 8:
            return 1e300
        b = 1 / (2 * gamma) + r * steps / 2
        return A / steps + C * 2 / (s * steps) * (b * C / s + math.sqrt(b * (A + b * (C / s) ** 2)))

    starts = [[1e-4, 1e-6, 1.0, 1e-3] * np.exp(rng.normal(size=4)) for _ in range(4)]
    best = min(logs_minimised(gap, start, maxiter=2000, maxfev=2000)[0] for start in starts)
    assert best >= rule.gap * (1 - 1e-4)
    assert best <= rule.gap * 1.05


def test_functions_without_curvature_may_use_any_smoothness():
    flat = UNIT._replace(L_f=0.0, L_h=0.0)
    assert theory.fw_csoa_two_scale(flat, T).gap <= theory.fw_csoa_two_scale(UNIT, T).gap
    with pytest.raises(ValueError, match="needs smooth functions"):
        theory.fw_csoa_two_scale(UNIT._replace(L_h=math.inf), T)


# ---- Split-CSOA --------------------------------------------------------------------------------------------------------


def split_pieces(k, steps, D_Y, r, eta, gamma, kappa):
    """(y), (l) and (q) of the proof for free steps, divided by T, with V_y and V_l."""
    R = k.multipliers + r
    M = k.G_f + k.G_h * R
    V_y, V_l = 3 * (k.sigma_f**2 + k.N * R**2 * k.sigma_h**2 + M**2), 4 * k.N * k.sigma_lam**2
    pieces = [(D_Y, eta, V_y), (R, gamma, V_l), (M, kappa, D_Y**2)]
    return sum(size**2 / (2 * step * steps) + step * V / 2 for size, step, V in pieces), V_y, V_l


@CASES
def test_split_is_the_best_of_its_raw_bound(k):
    C, D_Y = k.multipliers, 1.2 * k.D
    rule = theory.split_csoa(k, T, D_Y=D_Y)

    def gap(eta, gamma, kappa, r):
        return split_pieces(k, T, D_Y, r, eta, gamma, kappa)[0] * (1 + C / r)

    best, steps = logs_minimised(gap, [1e-3, 1e-3, 1e-3, C])
    assert rule.gap == pytest.approx(best, rel=1e-6)
    given = rule.coefficients
    named = [given[name] / math.sqrt(T) for name in ("eta0", "gamma0", "kappa0")]
    assert named == pytest.approx(list(steps[:3]), rel=1e-2)
    r = given["lam_radius"] - C
    assert rule.margin == pytest.approx(split_pieces(k, T, D_Y, r, *named)[0] / r)
    assert given["q_radius"] == pytest.approx(k.G_f + k.G_h * (C + r))
    assert isinstance(rule.method, tr.SplitCSOA)
    assert rule.method.steps.tightening(T) == pytest.approx(rule.margin)
    assert theory.split_csoa(k, T).gap > rule.gap  # Y is larger
    with pytest.raises(ValueError, match="Y contains X"):
        theory.split_csoa(k, T, D_Y=0.9 * k.D)


@CASES
@pytest.mark.parametrize("p", [0.3, 1e-6])
def test_one_run_is_the_raw_bound_with_its_tails(k, p):
    """For the steps of the rule: sums of squares exceed their mean by V ln(1/d) and martingales whose terms have
    E exp(X^2/s^2) <= e exceed s sqrt(3 T ln(1/d)), each with probability d = p/(N + 4) at most."""
    D_Y, rule = 1.2 * k.D, theory.split_csoa_one_run(k, T, p, D_Y=1.2 * k.D)
    R = rule.coefficients["lam_radius"]
    r, log = R - k.multipliers, math.log((k.N + 4) / p)
    eta, gamma, kappa = (rule.coefficients[name] / math.sqrt(T) for name in ("eta0", "gamma0", "kappa0"))
    a, V_y, V_l = split_pieces(k, T, D_Y, r, eta, gamma, kappa)
    squares = eta / 2 * V_y * log + gamma / 2 * V_l * log
    noise = 4 * 2 * (k.sigma_f**2 + k.N * R**2 * k.sigma_h**2)  # of the gradient, centred
    duals = 2 * R**2 * 4 * k.N * k.sigma_lam**2  # |lam - lam_t|^2 <= 2 R^2 among vectors that are not negative
    martingales = math.sqrt(3 * T * log) * (D_Y * math.sqrt(noise) + math.sqrt(duals))
    a += (squares + martingales) / T
    assert rule.margin == pytest.approx(a / r, rel=1e-9)
    assert rule.gap == pytest.approx(a * (1 + k.multipliers / r), rel=1e-9)
    assert f"with probability {1 - p:g}" in str(rule)
    assert theory.split_csoa(k, T, D_Y=D_Y).gap < rule.gap < theory.split_csoa_one_run(k, T, p / 10, D_Y=D_Y).gap
    with pytest.raises(ValueError, match="p is 1; expected a probability"):
        theory.split_csoa_one_run(k, T, 1)


def test_gaussian_tails():
    """E exp(|X|^2/s^2) of Gaussian vectors, in closed form, for the s that light_tailed takes."""
    grow = UNIT.light_tailed().sigma_f / UNIT.sigma_f
    rng = np.random.default_rng(0)
    for d in (1, 2, 7) * 20:
        m, v = rng.normal(size=d) * rng.exponential(), rng.exponential(size=d) ** 3
        s = grow**2 * (m @ m + v.sum())
        assert -np.log(1 - 2 * v / s).sum() / 2 + np.sum(m**2 / (s - 2 * v)) <= 1 + 1e-12
    assert -math.log(1 - 2 / grow**2) / 2 == pytest.approx(1)  # one coordinate without a mean: no smaller s will do


def test_constants_around_a_set():
    """f = |x - g|^2/2 and h = |x|^2 + <w, x> on the unit ball, and on the ball of radius 1.5 around it."""
    v, u = 0.3, 0.2  # standard deviations of each of three coordinates

    def on(radius):
        G_f, G_h = radius, 2 * radius
        sizes = math.sqrt(G_f**2 + 3 * v**2), math.sqrt(G_h**2 + 3 * u**2), math.sqrt(radius**4 + (u * radius) ** 2)
        return Constants(2.0, G_f, G_h, *sizes, L_f=1.0, L_h=2.0, sigma=0.1)

    inner, outer, bound = on(1.0), on(1.5), on(1.0).around(0.5)
    for name in ("G_f", "G_h", "sigma_f", "sigma_h", "sigma_lam"):
        assert getattr(inner, name) < getattr(outer, name) <= getattr(bound, name) * (1 + 1e-12)
    assert inner.around(0.0) == inner
    assert inner.around(0.5, L_f=0.0).sigma_f == inner.sigma_f


# ---- what all rules have in common -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", theory.RULES)
def test_conditions_hold_from_the_smallest_T_on(name):
    rule = theory.RULES[name](UNIT, 1000)
    assert name.split()[0].replace("-", "") in rule.name.lower().replace("-", "").replace(",", "")
    assert all(str(condition) in str(rule) for condition in rule.conditions)
    if math.isinf(rule.smallest):
        assert not rule.proven
        return
    assert theory.RULES[name](UNIT, int(rule.smallest)).proven
    before = theory.RULES[name](UNIT, int(rule.smallest * 0.999))
    assert not before.holds
    assert [c.name for c in before.conditions if not c.holds] == ["upsilon <= sigma/2"]
    assert f"from T = {rule.smallest:,.0f} on" in str(rule)


@pytest.mark.parametrize("name", ["csoa tight", "fw-csoa two scales", "split-csoa"])
@pytest.mark.parametrize(("f", "h", "x"), [(1e6, 1, 1e-3), (1e-6, 1e6, 1e-6)])
def test_units_are_units(name, f, h, x):
    """f, h and x measured in other units: gap and margin change with f and h, and the smallest T not at all."""
    k = ODD
    other = Constants(
        D=k.D * x, G_f=k.G_f * f / x, G_h=k.G_h * h / x, sigma_f=k.sigma_f * f / x, sigma_h=k.sigma_h * h / x,
        sigma_lam=k.sigma_lam * h, L_f=k.L_f * f / x**2, L_h=k.L_h * h / x**2, N=k.N, sigma=ODD.sigma * h, C=5.0 * f / h,
    )  # fmt: skip
    one, two = theory.RULES[name](k, T), theory.RULES[name](other, T)
    assert (two.gap, two.margin) == pytest.approx((one.gap * f, one.margin * h), rel=1e-6)
    assert two.smallest == pytest.approx(one.smallest, rel=1e-4)


def test_constants_that_cannot_be_are_refused():
    for change, words in [
        ({"sigma": None}, "Slater margin"),
        ({"sigma": -0.25}, "nothing is proven"),
        ({"sigma": 2.0}, "expected sigma <= sigma_lam"),
        ({"D": 0.0}, "D is 0.0; expected a positive number"),
        ({"sigma_f": math.inf}, "sigma_f is inf"),
        ({"C": -1.0}, "C >= 0"),
    ]:
        with pytest.raises(ValueError, match=words):
            theory.csoa_tight(UNIT._replace(**change), T)
    with pytest.raises(ValueError, match="T is 0"):
        theory.csoa_tight(UNIT, 0)
    with pytest.raises(ValueError, match="upsilon < sigma"):
        theory.multiplier_bound(1.0, 0.5, upsilon=0.5)


def test_the_bound_on_multipliers():
    assert UNIT.multipliers == 2 * UNIT.G_f * UNIT.D / UNIT.sigma  # pyright: ignore[reportOperatorIssue]
    assert theory.multiplier_bound(0.36, 0.05) == pytest.approx(14.4)
    for name in ("scalar", "l1-lp", "simplex"):
        assert PROBLEMS[name]().dual.sum() <= study.known(name).multipliers < PROBLEMS[name]().constants.multipliers


# ---- runs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rule"),
    [("scalar", "csoa tight"), ("l1-lp", "csoa tight"), ("simplex", "csoa tight"), ("scalar", "csoa corrected")],
)
def test_measured_gap_and_violation_are_within_the_predicted_ones(name, rule):
    k = study.known(name)
    made = theory.RULES[rule](k, int(theory.RULES[rule](k, 1).smallest))
    assert made.proven
    found = study.verdicts(study.pd.DataFrame([study.measure(name, made, range(12))]))
    assert found.holds.all(), found.to_string()
    assert found["gap"][0] > 0  # conservative: F is above F* along the run


def test_split_csoa_keeps_its_theorem():
    rule = free.at_smallest("l1-lp")
    assert rule.proven
    gaps, H = free.outputs("l1-lp", rule.method, rule.T, range(12))
    assert 0 < gaps.mean() <= rule.gap
    assert H.mean(axis=0).max() <= 0


@pytest.mark.slow
def test_one_run_of_split_csoa_keeps_its_theorem():
    """Of 1,000 runs, all but 5 % are within the bound that holds with probability 0.95: every one is, by far."""
    rule = free.at_smallest("scalar", p=0.05)
    assert rule.proven
    gaps, H = free.outputs("scalar", rule.method, rule.T, range(1_000))
    assert np.quantile(gaps, 0.95) <= rule.gap
    assert np.quantile(H.max(axis=1), 0.95) <= 0
    assert np.quantile(gaps, 0.95) > 0.01 * rule.gap  # the comparison is not with nothing


def test_a_margin_far_below_the_rule_violates():
    """The comparison can fail: without its margin the method leaves the feasible set."""
    k = study.known("scalar")
    rule = theory.csoa_tight(k, int(theory.csoa_tight(k, 1).smallest))
    bare = theory.Rule(**{**vars(rule), "method": tr.tree.replace(rule.method, upsilon0=0.0)})
    assert not study.verdicts(study.pd.DataFrame([study.measure("scalar", bare, range(12))])).holds.any()


# ---- estimates -----------------------------------------------------------------------------------------------------------


def test_a_pilot_finds_the_constants_of_a_known_problem():
    solved = PROBLEMS["ball"]()
    found = theory.estimate(solved.problem, solved.samples, samples=600, points=8, seed=2)
    for name in ("G_f", "G_h", "sigma_f", "sigma_h", "sigma_lam", "L_h", "sigma"):
        interval, truth = found.intervals[name], getattr(solved.constants, name)
        assert interval.low <= interval.value <= interval.high
        assert interval.value == pytest.approx(truth, rel=0.15), name
        assert interval.low <= truth * 1.02, name
    assert (found.constants.D, found.constants.N) == (4.0, 1)
    assert found.constants.L_f == found.constants.mu == 0
    assert solved.dual.sum() <= found.constants.multipliers <= solved.constants.multipliers
    assert "LOWER" in str(found)
    one, two = theory.csoa_tight(found.constants, T), theory.csoa_tight(found.cautious, T)
    assert two.gap > one.gap
    assert two.smallest > one.smallest
    assert float(np.max(np.asarray(solved.constraints(jnp.asarray(found.strict))))) < -0.4


@pytest.mark.slow
def test_a_pilot_says_where_no_point_is_strictly_feasible():
    solved = PROBLEMS["infeasible"]()
    found = theory.estimate(solved.problem, solved.samples, samples=200, points=4)
    assert found.intervals["sigma"].high < 0
    assert "No strictly feasible point was found" in str(found)
    with pytest.raises(ValueError, match="Slater margin"):
        theory.csoa_tight(found.constants, T)


@pytest.mark.slow
def test_a_pilot_in_other_units():
    f, h, x = 1e6, 1e-6, 1e3

    def problem(f, h, x):
        def objective(p, theta):
            return f * jnp.sum((p / x - theta[:3]) ** 2) / 2

        def constraints(p, theta):
            return h * ((1 + theta[3]) * p[:1] / x - 0.2)

        return tr.Problem(objective, constraints, tr.L2Ball(2.0 * x, shape=3))

    rows = np.random.default_rng(2).normal(size=(400, 4))
    one, two = (theory.estimate(made, rows, samples=200, points=6) for made in (problem(1, 1, 1), problem(f, h, x)))
    units = {"D": x, "G_f": f / x, "G_h": h / x, "sigma_f": f / x, "sigma_h": h / x, "sigma_lam": h, "L_f": f / x**2}
    for name, unit in (units | {"mu": f / x**2, "sigma": h}).items():
        assert getattr(two.constants, name) == pytest.approx(getattr(one.constants, name) * unit, rel=0.1), name


def test_a_pilot_of_a_set_without_linear_minimisation_and_in_float32():
    @tr.pytree
    class Disc(tr.ConvexSet):
        """A ball that can only project."""

        def project(self, x):
            return tr.L2Ball(1.0).project(x)

        @property
        def diameter(self):
            return 2.0

        def contains(self, x, tol=None):
            return tr.L2Ball(1.0).contains(x, tol)

        def start(self, dtype=None):
            return jnp.zeros(2, dtype or jnp.result_type(float))

    with jax.enable_x64(False):
        problem = tr.Problem(lambda x, t: jnp.dot(x, t), lambda x, t: x[:1] + 0.1 * t[0] - 0.2, Disc())
        found = theory.estimate(problem, np.random.default_rng(0).normal(size=(100, 2)) + 1, samples=60, points=4)
    assert found.intervals["sigma"].low > 0.5
    assert found.constants.multipliers <= 2 * found.constants.G_f * 2.0 / found.intervals["sigma"].value * (1 + 1e-6)


def test_a_problem_without_constraints_has_no_rule():
    problem = tr.Problem(lambda x, t: jnp.dot(x, t), None, tr.L2Ball(1.0, shape=2))
    with pytest.raises(ValueError, match="no constraints"):
        theory.estimate(problem, np.ones((10, 2)))


# ---- the page ------------------------------------------------------------------------------------------------------------


def test_the_report_of_the_study():
    first = study.rules(["scalar", "portfolio", "infeasible"])
    assert list(first.problem) == ["scalar", "portfolio"]
    assert np.isnan(first["fw-csoa two scales"][1])
    row = {
        "problem": "scalar",
        "rule": "r",
        "T": 10,
        "seeds": 4,
        "predicted gap": 1.0,
        "gap": 2.0,
        "gap half width": 0.1,
    }
    table = study.pd.DataFrame([row | {"margin": 0.1, "H": -1.0, "H half width": 0.1}])
    text = study.report(first, table, 1000)
    assert "| scalar | r | 10 | 4 |" in text
    assert "**no**" in text
    assert "run on: portfolio (" in text
