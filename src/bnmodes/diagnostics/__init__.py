"""What happens inside an agent's networks while it learns; measuring changes nothing in them."""

from bnmodes.diagnostics.measure import Batches, Row, measure, rows_needed

__all__ = ["Batches", "Row", "measure", "rows_needed"]
