"""Weights to and from other people's formats: each format a file, its names a table beside it.

In:  a model directory; or a directory that somebody else's software wrote.
Out: a directory in the other form, and a report of how well it agrees. What a format cannot carry
     exactly is a `ModelError`.
Does not know: training, HTTP.

Import from the files (`transduce.export.ctranslate2`, …): nothing is imported here.
"""
