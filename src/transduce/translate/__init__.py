"""Text to text: a loaded model, an engine that runs it, a stream of lines, long texts cut and joined.

Import from the files (`transduce.translate.translator`, …): nothing is imported here, so that a
translator over an exported model does not load torch.
"""
