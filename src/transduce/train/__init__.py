"""Batches to weights: loss, schedule, optimiser, the loop, checkpoints, the log.

Knows: models, batches, callables that validate. Does not know: text, search, BLEU, HTTP.

Import from the files (`transduce.train.loop`, …): nothing is imported here, so that reading a
configuration does not load torch.
"""
