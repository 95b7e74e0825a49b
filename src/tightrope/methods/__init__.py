"""The methods, one file each. Importing one here registers it under its `name`; nothing else is needed."""

from tightrope.methods.base import Cost as Cost
from tightrope.methods.base import Info as Info
from tightrope.methods.base import Method as Method
from tightrope.methods.base import Proof as Proof
from tightrope.methods.base import Rates as Rates
from tightrope.methods.base import Refreshing as Refreshing
from tightrope.methods.base import State as State
from tightrope.methods.base import dual_step as dual_step
from tightrope.methods.base import gradients_used as gradients_used
from tightrope.methods.base import steps_within as steps_within
from tightrope.methods.bundle.method import Bundle as Bundle
from tightrope.methods.conservative.cfwcsoa import CFWCSOA as CFWCSOA
from tightrope.methods.conservative.cscgd import CSCGD as CSCGD
from tightrope.methods.conservative.csoa import CSOA as CSOA
from tightrope.methods.conservative.fwcsoa import FWCSOA as FWCSOA
from tightrope.methods.conservative.mfwcsoa import MFWCSOA as MFWCSOA
from tightrope.methods.conservative.splitcsoa import SplitCSOA as SplitCSOA
from tightrope.methods.conservative.svrfcsoa import SVRFCSOA as SVRFCSOA
from tightrope.methods.conservative.svrgcsoa import SVRGCSOA as SVRGCSOA
from tightrope.lab.methods.frank_wolfe.affinefw import AffineFW as AffineFW
from tightrope.lab.methods.frank_wolfe.coexcg import CoexCG as CoexCG
from tightrope.lab.methods.frank_wolfe.coexcg import CoexDurCG as CoexDurCG
from tightrope.lab.methods.frank_wolfe.ofw import OFW as OFW
from tightrope.lab.methods.frank_wolfe.osfw import OSFW as OSFW
from tightrope.lab.methods.frank_wolfe.scgd import SCGD as SCGD
from tightrope.lab.methods.frank_wolfe.sfw import SFW as SFW
from tightrope.lab.methods.frank_wolfe.svrf import SVRF as SVRF
from tightrope.lab.methods.primal.csa import CSA as CSA
from tightrope.lab.methods.primal.csa import MultiCSA as MultiCSA
from tightrope.lab.methods.primal.oneprojection import OneProjection as OneProjection
from tightrope.lab.methods.primal.pfs import PFS as PFS
from tightrope.lab.methods.primal.storm import STORM as STORM
from tightrope.lab.methods.primal_dual.aprid import APriD as APriD
from tightrope.lab.methods.primal_dual.conex import ConEx as ConEx
from tightrope.lab.methods.primal_dual.delayed import DelayedSaddle as DelayedSaddle
from tightrope.lab.methods.primal_dual.goco import GOCO as GOCO
from tightrope.lab.methods.primal_dual.kimlee import KimLee as KimLee
from tightrope.lab.methods.primal_dual.longterm import Jenatton as Jenatton
from tightrope.lab.methods.primal_dual.longterm import MahdaviJinYang as MahdaviJinYang
from tightrope.lab.methods.primal_dual.madavanbose import MadavanBose as MadavanBose
from tightrope.lab.methods.primal_dual.mirror import MirrorSA as MirrorSA
from tightrope.lab.methods.primal_dual.mirror import RobustSA as RobustSA
from tightrope.lab.methods.primal_dual.nupi import NuPI as NuPI
from tightrope.lab.methods.primal_dual.opdmd import OPDMD as OPDMD
from tightrope.lab.methods.primal_dual.sapmm import SAPMM as SAPMM
from tightrope.lab.methods.primal_dual.slpmm import SLPMM as SLPMM
from tightrope.methods.second_order.method import SQP as SQP

METHODS: dict[str, type[Method]] = {
    kind.name: kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, Method) and kind.name
}
"""The methods by name."""
