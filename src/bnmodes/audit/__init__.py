"""Which statistics does a forward really use, and what does a copy really copy?

Running statistics are changed, batch-mates are exchanged, and what the forward does then is looked
at: a fact about the forward, whatever `.train()`, `.eval()` or a wrapper meant it to do. Where
nothing can be seen, the answer is "cannot tell", with the reason.
"""

from bnmodes.audit.copies import CopyAudit, audit_copy
from bnmodes.audit.functions import audit_function
from bnmodes.audit.modules import audit
from bnmodes.audit.result import Audit

__all__ = ["Audit", "CopyAudit", "audit", "audit_copy", "audit_function"]
