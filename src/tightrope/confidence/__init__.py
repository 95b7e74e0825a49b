"""Confidence bounds: how large a mean, a rate or a ratio can still be, given a sample that nothing was chosen on.

A bound says which: proven at every sample size (`binomial_upper`, `bounded_upper`, `Anytime`, `umbrella_order`), or
asymptotic (`studentised_upper`, `ratio_lower`, `difference_upper`). Every one is one-sided, but for intervals to report
(`wilson`, `ratio_interval`, `difference_interval`; asymptotic). "All of them hold" needs no Bonferroni: if each U_i is
above H_i with probability 1 - alpha, then so is max_i U_i above max_i H_i, because it fails only where the bound of the
largest H_i does (Berger's intersection-union test). All are for independent rows: `serial_dependence` looks for others.
"""

from tightrope.confidence.anytime import Anytime as Anytime
from tightrope.confidence.independence import TESTED as TESTED
from tightrope.confidence.independence import Dependence as Dependence
from tightrope.confidence.independence import copied_from as copied_from
from tightrope.confidence.independence import copies as copies
from tightrope.confidence.independence import leeway as leeway
from tightrope.confidence.independence import serial_dependence as serial_dependence
from tightrope.confidence.means import ENOUGH as ENOUGH
from tightrope.confidence.means import TWO_SIDED as TWO_SIDED
from tightrope.confidence.means import USUAL as USUAL
from tightrope.confidence.means import binomial_lower as binomial_lower
from tightrope.confidence.means import binomial_upper as binomial_upper
from tightrope.confidence.means import bounded_below as bounded_below
from tightrope.confidence.means import bounded_lower as bounded_lower
from tightrope.confidence.means import bounded_upper as bounded_upper
from tightrope.confidence.means import skewness_shortfall as skewness_shortfall
from tightrope.confidence.means import studentised_upper as studentised_upper
from tightrope.confidence.rates import difference_interval as difference_interval
from tightrope.confidence.rates import difference_score as difference_score
from tightrope.confidence.rates import difference_upper as difference_upper
from tightrope.confidence.rates import effective_ratio_lower as effective_ratio_lower
from tightrope.confidence.rates import fixed_sequence as fixed_sequence
from tightrope.confidence.rates import ratio_interval as ratio_interval
from tightrope.confidence.rates import ratio_lower as ratio_lower
from tightrope.confidence.rates import ratio_score as ratio_score
from tightrope.confidence.rates import umbrella_least as umbrella_least
from tightrope.confidence.rates import umbrella_order as umbrella_order
from tightrope.confidence.rates import wilson as wilson
