"""The methods, one file each. Importing one here registers it under its `name`; nothing else is needed."""

from tightrope.methods.affinefw import AffineFW as AffineFW
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
from tightrope.methods.csoa import CSOA as CSOA
from tightrope.methods.fwcsoa import FWCSOA as FWCSOA
from tightrope.methods.goco import GOCO as GOCO
from tightrope.methods.ofw import OFW as OFW
from tightrope.methods.osfw import OSFW as OSFW
from tightrope.methods.scgd import SCGD as SCGD
from tightrope.methods.sfw import SFW as SFW
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
