"""What is proven: the constants of a problem, and the steps, margins and gaps that theorems make of them.

The errata (E1, E2, ...) and the proofs are in docs/theory.md.
"""

from tightrope.lab.theory.adaptive import AdaGrad as AdaGrad
from tightrope.lab.theory.adaptive import braked_adagrad as braked_adagrad
from tightrope.lab.theory.brake import Braked as Braked
from tightrope.lab.theory.brake import self_certificate as self_certificate
from tightrope.lab.theory.constants import Constants as Constants
from tightrope.lab.theory.constants import multiplier_bound as multiplier_bound
from tightrope.lab.theory.estimates import Estimates as Estimates
from tightrope.lab.theory.estimates import Interval as Interval
from tightrope.lab.theory.estimates import estimate as estimate
from tightrope.lab.theory.rules import RULES as RULES
from tightrope.lab.theory.rules import Condition as Condition
from tightrope.lab.theory.rules import Rule as Rule
from tightrope.lab.theory.rules import csoa_corrected as csoa_corrected
from tightrope.lab.theory.rules import csoa_printed as csoa_printed
from tightrope.lab.theory.rules import csoa_tight as csoa_tight
from tightrope.lab.theory.rules import fw_csoa_printed as fw_csoa_printed
from tightrope.lab.theory.rules import fw_csoa_two_scale as fw_csoa_two_scale
from tightrope.lab.theory.rules import split_csoa as split_csoa
from tightrope.lab.theory.rules import split_csoa_one_run as split_csoa_one_run
