"""Every error a user can meet, as one small tree.

    TransduceError          one line: what was expected, what came, where, what to do next
    ├── RecipeError         a recipe, preset or `--set` that cannot be followed
    ├── DataError           a corpus or an input file: missing, mis-encoded, unequal, empty
    ├── TokenizerError      a tokenizer that cannot be trained, read or used
    ├── ModelError          a model directory or configuration: missing, incomplete, inconsistent
    ├── CheckpointError     a run's saved state: damaged, foreign, not continuable
    ├── SearchError         a decoding request that has no answer
    └── ServeError          a server that cannot run as it was told to

The command line prints the message and exits with code 2; a traceback is a bug.
Python's own `ValueError` and `AssertionError` mark our mistakes, never the user's.
"""

from __future__ import annotations

__all__ = [
    "CheckpointError",
    "DataError",
    "ModelError",
    "RecipeError",
    "SearchError",
    "ServeError",
    "TokenizerError",
    "TransduceError",
]


class TransduceError(Exception):
    """A problem that the user can mend; its message is one line that says how."""


class RecipeError(TransduceError):
    """A recipe, preset or override is wrong."""


class DataError(TransduceError):
    """A corpus or input file is missing, damaged or not parallel."""


class TokenizerError(TransduceError):
    """A tokenizer cannot be trained, read or used."""


class ModelError(TransduceError):
    """A model directory or model configuration is missing, incomplete or inconsistent."""


class CheckpointError(TransduceError):
    """A run's saved state is damaged, or belongs to another run."""


class SearchError(TransduceError):
    """A decoding request that cannot be answered."""


class ServeError(TransduceError):
    """A server cannot run as it was told to: a setting, a port, two models for one pair of languages."""
