"""What requests and answers of the API, version 1, look like; OpenAPI shows these very words.

Does not know: how anything is translated.
"""

from __future__ import annotations

import difflib
import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from transduce.translate.protect import DEFAULT_KINDS, Kind

__all__ = ["Model", "Models", "StrictModel", "TranslateRequest", "TranslateResponse", "Translated"]

_NO_TEXT = re.compile("[\0\ud800-\udfff]")


class StrictModel(BaseModel):
    """A request: numbers are not guessed from strings, and an unknown field is refused by name."""

    model_config = ConfigDict(strict=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _know_every_field(cls, given: Any) -> Any:
        if isinstance(given, dict):
            for name in given.keys() - cls.model_fields.keys():
                near = difflib.get_close_matches(str(name), cls.model_fields, 1, 0.5)
                hint = f"did you mean {near[0]}?" if near else "leave it out"
                known = ", ".join(cls.model_fields)
                raise PydanticCustomError(
                    "unknown_field",
                    "unknown field {name}: {hint} There are {known}",
                    {"name": repr(str(name)[:60]), "hint": hint, "known": known},
                )
        return given


def _readable(text: str) -> str:
    found = _NO_TEXT.search(text)
    if found:
        what = "a NUL character" if found.group() == "\0" else "half a surrogate pair"
        raise PydanticCustomError(
            "no_text", "{what} stands at {place}: remove it", {"what": what, "place": found.start()}
        )
    return text


Text = Annotated[str, AfterValidator(_readable)]
Language = Annotated[str, Field(min_length=1, max_length=35, examples=["en"])]


def _one_of(given: str, *absent: str) -> dict[str, Any]:
    """What JSON Schema says of a field that must be there, and of those that must not."""
    null = {name: {"type": "null"} for name in absent}
    return {"required": [given], "properties": {given: {"not": {"type": "null"}}, **null}}


class TranslateRequest(StrictModel):
    """What to translate, and how; what is left out is as the model's own settings have it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"text": "one two three"},
                {"texts": ["one two", "three"], "beam_size": 4, "n_best": 2, "alignment": True},
            ],
            "oneOf": [_one_of("text", "texts", "prefixes"), _one_of("texts", "text", "prefix")],
        }
    )

    text: Text | None = Field(None, description="One text; or give `texts`.")
    texts: list[Text] | None = Field(None, description="Several, each translated on its own.")
    source: Language | None = Field(None, description="Language of the texts, where one must be chosen.")
    target: Language | None = Field(None, description="Language to translate into, as above.")
    format: Literal["text", "html"] = Field("text", description="html: tags stay, in place.")
    beam_size: int | None = Field(None, ge=1, description="1 is greedy and fastest.")
    n_best: int | None = Field(None, ge=1, description="How many translations of each text.")
    alignment: bool = Field(False, description="Which source token each target token looked at most.")
    details: bool = Field(False, description="The probability of each token and word.")
    prefix: Text | None = Field(None, description="Words that the translation of `text` must begin with.")
    prefixes: list[Text] | None = Field(None, description="The same for each of `texts`.")
    glossary: dict[Text, Text] | None = Field(None, description="Phrases and how they must be translated.")
    protect: bool | list[Kind] = Field(
        False,
        description="Keep such text as it is; true: " + ", ".join(DEFAULT_KINDS),
        union_mode="left_to_right",
    )
    length_penalty: Literal["gnmt", "power"] | None = None
    alpha: float | None = Field(None, description="Exponent of the length penalty.", allow_inf_nan=False)
    patience: float | None = Field(
        None,
        gt=0,
        le=1_000_000,
        allow_inf_nan=False,
        description="1 ends the search sooner, now and then with another answer.",
    )
    method: Literal["beam", "sample"] | None = Field(None, description="`sample` draws translations.")
    seed: int | None = Field(None, ge=0, lt=2**32, description="The same seed draws the same samples.")
    temperature: float | None = Field(None, gt=0, allow_inf_nan=False)
    top_k: int | None = Field(None, ge=0)
    top_p: float | None = Field(None, gt=0, le=1)

    @model_validator(mode="after")
    def _one_or_many(self) -> Self:
        if (self.text is None) == (self.texts is None):
            raise PydanticCustomError("text", "expected either `text` (one) or `texts` (several)")
        if self.texts is not None and self.prefix is not None:
            raise PydanticCustomError("prefix", "`prefix` goes with `text`; with `texts` give `prefixes`")
        if self.texts is None and self.prefixes is not None:
            raise PydanticCustomError("prefixes", "`prefixes` goes with `texts`; with `text` give `prefix`")
        return self

    @property
    def all_texts(self) -> list[str]:
        """One or many, as many."""
        return [self.text] if self.text is not None else list(self.texts or ())


class Translated(BaseModel):
    """One text's translation; fields of `transduce translate --jsonl`."""

    text: str
    score: float = Field(description="What hypotheses were compared by: log-probability over length penalty.")
    confidence: float = Field(description="Geometric mean of the tokens' probabilities, 0 to 1.")
    flags: list[str] = Field(description="truncated, repeated, copied, length, empty, split, glossary, …")
    source_tokens: list[str]
    tokens: list[str]
    token_confidence: list[float] = Field(description="With `details`; else empty.")
    words: list[str] = []
    word_confidence: list[float] = []
    alignment: str | None = Field(None, description="Pairs of tokens, `0-0 1-2`, with `alignment`.")
    source_words: list[str] | None = None
    word_alignment: str | None = None
    alternatives: list[dict[str, Any]] | None = Field(None, description="With `n_best` above 1.")
    missing: list[str] | None = Field(None, description="The glossary's phrases that the text lacks.")
    lost: list[str] | None = Field(None, description="Protected spans that the text lacks.")
    added: list[str] | None = None


class TranslateResponse(BaseModel):
    """The translations, in the order of the texts."""

    model: str = Field(description="Which model translated.", examples=["en-de"])
    source: str
    target: str
    translations: list[Translated]


class Model(BaseModel):
    """A model, as the server has it."""

    name: str = Field(examples=["en-de"])
    source: str = Field(description="Empty if the model does not say.", examples=["en"])
    target: str = Field(examples=["de"])
    state: Literal["loaded", "unloaded", "failed"]
    engine: Literal["ctranslate2", "torch", "onnx"] | None = Field(description="Of what is loaded.")
    max_len: int | None = Field(description="Most source tokens of one pass; longer texts are split.")
    loaded_at: str | None = Field(examples=["2026-11-30T01:00:00Z"])
    problem: str | None = Field(description="Why what is on disk does not serve; what was loaded still does.")


class Models(BaseModel):
    """All models, and the server's limits."""

    models: list[Model]
    limits: dict[str, int | float]
