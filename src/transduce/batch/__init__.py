"""Token ids to batches: a memory-mapped store, length buckets, a token budget, a resumable order.

Knows: ids, lengths, files of its own. Does not know: text, models, losses, devices' number.
"""

from transduce.batch.collate import Batch, SpecialIds, collate, pad_rows
from transduce.batch.config import BatchConfig
from transduce.batch.order import BatchOrder, Position
from transduce.batch.store import StoreInfo, TokenStore, build_store, stored_fingerprint

__all__ = [
    "Batch",
    "BatchConfig",
    "BatchOrder",
    "Position",
    "SpecialIds",
    "StoreInfo",
    "TokenStore",
    "build_store",
    "collate",
    "pad_rows",
    "stored_fingerprint",
]
