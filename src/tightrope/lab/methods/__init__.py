"""Methods of others, to compare with: one file each, in the folder of its family.

The entry point `tightrope.methods` of this package names this module; loading it puts every class below into
`tightrope.METHODS`. An import line here is all that a rival needs.
"""

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
from tightrope.methods import register

register(*(kind for kind in list(globals().values()) if isinstance(kind, type)))
