"""Weights to other people's formats: each format a file, its names a table beside it.

In:  a model directory. Out: a directory that another program runs, and a report of how well it agrees.
Does not know: training, HTTP.

Import from the files (`transduce.export.ctranslate2`, …): nothing is imported here.
"""
