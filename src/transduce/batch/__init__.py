"""Token ids to batches: a memory-mapped store, length buckets, a token budget, a resumable order.

Knows: ids, lengths, files of its own. Does not know: text, models, losses, devices' number.

Import from the files (`transduce.batch.store`, …): nothing is imported here, so that reading a
configuration does not load torch.
"""
