"""The methods, one file each. Importing one here registers it under its `name`; nothing else is needed."""

from tightrope.methods.affinefw import AffineFW as AffineFW
from tightrope.methods.aprid import APriD as APriD
from tightrope.methods.base import Cost as Cost
from tightrope.methods.base import Info as Info
from tightrope.methods.base import Method as Method
from tightrope.methods.base import Rates as Rates
from tightrope.methods.base import dual_step as dual_step
from tightrope.methods.base import gradients_used as gradients_used
from tightrope.methods.base import steps_within as steps_within
from tightrope.methods.cfwcsoa import CFWCSOA as CFWCSOA
from tightrope.methods.coexcg import CoexCG as CoexCG
from tightrope.methods.coexcg import CoexDurCG as CoexDurCG
from tightrope.methods.conex import ConEx as ConEx
from tightrope.methods.csa import CSA as CSA
from tightrope.methods.csa import MultiCSA as MultiCSA
from tightrope.methods.cscgd import CSCGD as CSCGD
from tightrope.methods.csoa import CSOA as CSOA
from tightrope.methods.delayed import DelayedSaddle as DelayedSaddle
from tightrope.methods.fwcsoa import FWCSOA as FWCSOA
from tightrope.methods.goco import GOCO as GOCO
from tightrope.methods.kimlee import KimLee as KimLee
from tightrope.methods.longterm import Jenatton as Jenatton
from tightrope.methods.longterm import MahdaviJinYang as MahdaviJinYang
from tightrope.methods.madavanbose import MadavanBose as MadavanBose
from tightrope.methods.mfwcsoa import MFWCSOA as MFWCSOA
from tightrope.methods.mirror import MirrorSA as MirrorSA
from tightrope.methods.mirror import RobustSA as RobustSA
from tightrope.methods.nupi import NuPI as NuPI
from tightrope.methods.ofw import OFW as OFW
from tightrope.methods.oneprojection import OneProjection as OneProjection
from tightrope.methods.opdmd import OPDMD as OPDMD
from tightrope.methods.osfw import OSFW as OSFW
from tightrope.methods.pfs import PFS as PFS
from tightrope.methods.sapmm import SAPMM as SAPMM
from tightrope.methods.scgd import SCGD as SCGD
from tightrope.methods.sfw import SFW as SFW
from tightrope.methods.slpmm import SLPMM as SLPMM
from tightrope.methods.storm import STORM as STORM
from tightrope.methods.svrf import SVRF as SVRF
from tightrope.methods.svrfcsoa import SVRFCSOA as SVRFCSOA
from tightrope.methods.svrgcsoa import SVRGCSOA as SVRGCSOA

METHODS: dict[str, type[Method]] = {
    kind.name: kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, Method) and kind is not Method
}
"""The methods by name."""
