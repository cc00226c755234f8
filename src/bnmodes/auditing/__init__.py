"""Which statistics does a forward really use, and what does a copy really copy?

Running statistics are changed, batch-mates are exchanged, and what the forward does then is looked
at: a fact about the forward, whatever `.train()`, `.eval()` or a wrapper meant it to do. Where
nothing can be seen, the answer is "cannot tell", with the reason.
"""

from bnmodes.auditing.copies import CopyAudit, audit_copy
from bnmodes.auditing.functions import audit_function
from bnmodes.auditing.modules import audit
from bnmodes.auditing.result import Audit

__all__ = ["Audit", "CopyAudit", "audit", "audit_copy", "audit_function"]
