"""Search: from a step function to token ids. Greedy, beam and sampling, with one interface.

In:  `step(ids, state) -> (logits, state)` and a state with one row per sentence.
Out: per sentence a list of `Hypothesis`: ids, score, log-probabilities, finished or cut.
Does not know: networks, files, vocabulary strings. A scripted table can be searched as well.

Read in this order: `step` (what is asked of a model), `config`, `request` (what is asked of a
search), `scores`, `constraints`, `hypothesis` and `tree`, `walk` with `greedy` and `sample`, `beam`.

Import from the files (`transduce.search.beam`, …): nothing is imported here, so that reading a
configuration does not load torch.
"""
