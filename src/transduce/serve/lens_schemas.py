"""What the page may ask of a trace; OpenAPI shows these very words.

Does not know: models, how anything is answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from transduce.serve.schemas import StrictModel, Text

if TYPE_CHECKING:
    from transduce.lens import Interventions
    from transduce.search.config import SearchConfig

__all__ = ["Decode", "Kind", "TraceRequest", "WhatIfRequest"]

Kind = Literal["enc_self", "dec_self", "cross"]
Ids = list[int]


class Decode(StrictModel):
    """How to search; what is left out is as the model's own settings have it."""

    mode: Literal["beam", "greedy", "sample"] | None = None
    beam: int | None = Field(None, ge=1, description="Hypotheses kept at each step.")
    n_best: int | None = Field(
        None,
        ge=1,
        description="How many of the best the search must be sure of; others that it finished are told too.",
    )
    max_len: int | None = Field(None, ge=1, description="Most output tokens.")
    length_penalty: float | None = Field(None, ge=-10, le=10, description="Exponent of the length penalty.")
    temperature: float | None = Field(None, gt=0, le=100, allow_inf_nan=False)
    top_k: int | None = Field(None, ge=0)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = Field(None, ge=0, lt=2**32)

    def over(self, config: SearchConfig) -> SearchConfig:
        """The model's settings with these over them.

        Raises:
            SearchError: they contradict each other.
        """
        from dataclasses import replace

        mode = self.mode or ("sample" if config.method == "sample" else "beam")
        beam = 1 if mode == "greedy" else self.beam or config.beam_size
        given = {
            "alpha": self.length_penalty,
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "seed": self.seed,
        }
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return replace(
            config,
            method="sample" if mode == "sample" else "beam",
            beam_size=beam,
            n_best=self.n_best or 1,
            **changes,
        )


class TraceRequest(StrictModel):
    """A sentence to translate and open."""

    text: Text = Field(examples=["a man in a blue shirt is standing on a ladder ."])
    decode: Decode = Field(default_factory=lambda: Decode.model_validate({}))
    target: Text | None = Field(None, description="An output to look into instead of searching for one.")
    force: Ids = Field(default_factory=list, max_length=1000, description="Ids that the output begins with.")


class HeadName(StrictModel):
    """One head."""

    kind: Kind
    layer: int = Field(ge=0)
    head: int = Field(ge=0)


class Tau(StrictModel):
    """Another temperature in a layer, or in all."""

    kind: Kind
    layer: int | None = Field(None, ge=0)
    tau: float = Field(ge=0.01, le=100)


class Mask(StrictModel):
    """Another mask in a layer, or in all."""

    kind: Kind
    layer: int | None = Field(None, ge=0)
    hide: Ids = Field(
        default_factory=list, max_length=1000, description="Positions that no query may look at."
    )
    causal: bool = Field(True, description="False: decoder queries may look ahead in the re-run.")


class WhatIfRequest(StrictModel):
    """What to change in the model while it translates the same text again."""

    ablate: list[HeadName] = Field(default_factory=list, max_length=1000)
    tau: list[Tau] = Field(default_factory=list, max_length=100)
    mask: list[Mask] = Field(default_factory=list, max_length=100)
    force: Ids = Field(default_factory=list, max_length=1000, description="Ids that the output begins with.")
    fixed: bool = Field(
        False, description="No new search: what does the changed model think of the old output?"
    )

    def interventions(self) -> Interventions:
        """In the words of the room that looks inside."""
        from transduce.lens import HeadName, Interventions, MaskChange, Temperature

        return Interventions(
            ablate=tuple(HeadName(**head.model_dump()) for head in self.ablate),
            tau=tuple(Temperature(**change.model_dump()) for change in self.tau),
            mask=tuple(_mask(change.model_dump(), MaskChange) for change in self.mask),
        )


def _mask(given: dict[str, Any], kind: Any) -> Any:
    return kind(**{**given, "hide": tuple(given["hide"])})
