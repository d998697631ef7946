"""Arrays on their way out: as safetensors bytes, or as plain lists for reading by eye.

In:  numpy arrays by name, and a few words about them. Out: bytes, or a dictionary for JSON.
Does not know: models.

Three dtypes only: F32, U8, I32. Row-major. A safetensors file is an 8-byte little-endian length, that
many bytes of JSON (dtype, shape, offsets), and the arrays' bytes one after another.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Arrays"]

_NAMES = {"float32": "F32", "uint8": "U8", "int32": "I32"}
_ALIGNMENT = 8


@dataclass(frozen=True)
class Arrays:
    """Arrays that belong together."""

    arrays: Mapping[str, NDArray[Any]]
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def num_values(self) -> int:
        """Numbers in all."""
        return sum(array.size for array in self.arrays.values())

    def to_safetensors(self) -> bytes:
        """As a file, which `safetensors.numpy.load` reads; widest numbers first, so that all are aligned."""
        header: dict[str, Any] = {
            "__metadata__": {name: _word(value) for name, value in self.metadata.items()}
        }
        parts, end = [], 0
        for name, array in sorted(self.arrays.items(), key=lambda item: (-item[1].itemsize, item[0])):
            little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            begin, end = end, end + little.nbytes
            header[name] = {
                "dtype": _NAMES[array.dtype.name],
                "shape": array.shape,
                "data_offsets": [begin, end],
            }
            parts.append(little.tobytes())
        text = json.dumps(header, ensure_ascii=False).encode()
        text += b" " * (-len(text) % _ALIGNMENT)
        return b"".join([struct.pack("<Q", len(text)), text, *parts])

    def to_dict(self) -> dict[str, Any]:
        """For JSON: each array flat, row by row."""
        tensors = {
            name: {
                "dtype": _NAMES[array.dtype.name],
                "shape": list(array.shape),
                "data": array.flatten().tolist(),
            }
            for name, array in self.arrays.items()
        }
        return {"metadata": dict(self.metadata), "tensors": tensors}


def _word(value: Any) -> str:
    """Metadata are strings in safetensors."""
    return value if isinstance(value, str) else json.dumps(value)
