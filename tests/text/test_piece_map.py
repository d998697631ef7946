"""New pieces on old ones: the same piece, the same role, or the pieces that spell it."""

from __future__ import annotations

import pytest

from digits import digit_pairs
from transduce.text.piece_map import map_pieces
from transduce.text.tokenizer import TokenizerConfig
from transduce.text.vocabulary import train_tokenizer

GERMAN = [target for _, target in digit_pairs(300)]
LIGHTS = ["das licht ist eins", "die lampe ist neun", "licht an", "lampe aus", "das é"] * 20


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    directory = tmp_path_factory.mktemp("pieces")

    def make(name, lines, **settings):
        settings = {"vocab_size": 300, **settings}
        return train_tokenizer(lines, TokenizerConfig(**settings), directory / f"{name}.model")

    old, new = make("old", GERMAN), make("new", LIGHTS)
    return old, new, make("bare", GERMAN, vocab_size=60, byte_fallback=False)


def test_a_vocabulary_on_itself_is_itself(tokenizers):
    for tokenizer in tokenizers:
        found = map_pieces(tokenizer, tokenizer)
        assert found.parts == tuple((i,) for i in range(tokenizer.vocab_size))
        assert found.num_shared == tokenizer.vocab_size


def test_shared_pieces_are_themselves_and_others_are_spelt(tokenizers):
    old, new, _ = tokenizers
    found = map_pieces(old, new)
    old_pieces, new_pieces = (t.pieces(range(t.vocab_size)) for t in (old, new))
    assert len(found.parts) == new.vocab_size
    shared = set(old_pieces) & set(new_pieces)
    assert found.num_shared == len(shared) < new.vocab_size
    spelt = []
    for piece, parts in zip(new_pieces, found.parts, strict=True):
        if piece in shared:
            assert [old_pieces[i] for i in parts] == [piece]
        elif parts and not any(old_pieces[i].startswith("<0x") for i in parts):
            # Inside a word as at its beginning: no mark of a beginning that the piece does not have.
            assert "".join(old_pieces[i] for i in parts) == piece
            spelt.append(piece)
    assert any(piece.startswith("\u2581") for piece in spelt)
    assert any(not piece.startswith("\u2581") for piece in spelt)


def test_a_character_the_old_one_never_saw_is_spelt_in_bytes(tokenizers):
    old, new, bare = tokenizers
    accent = new.pieces(range(new.vocab_size)).index("é")
    assert old.pieces(map_pieces(old, new).parts[accent]) == ["<0xC3>", "<0xA9>"]
    assert map_pieces(bare, new).parts[accent] == ()


def test_bytes_are_not_text_to_be_spelt(tokenizers):
    _, new, bare = tokenizers
    found = map_pieces(bare, new)
    pieces = new.pieces(range(new.vocab_size))
    byte = pieces.index("<0x41>")
    assert found.parts[byte] == ()
    # Without bytes the old vocabulary reads what stands before the piece as unknown: that is no part.
    assert all(bare.unk_id not in parts for i, parts in enumerate(found.parts) if i != new.unk_id)
    assert any(len(parts) > 1 for parts in found.parts)


def test_special_pieces_go_by_their_role(tokenizers, monkeypatch):
    old = tokenizers[0]

    class Renamed:
        """`new` as a stranger may have made it: other ids and names for the special pieces."""

        pad_id, unk_id, bos_id, eos_id = 3, 2, 1, 0
        vocab_size = 5

        def pieces(self, ids):
            return [["<end>", "<s>", "<unk>", "<blank>", "eins"][i] for i in ids]

    parts = map_pieces(old, Renamed()).parts
    assert parts[:4] == ((old.eos_id,), (old.bos_id,), (old.unk_id,), (old.pad_id,))
    assert parts[4]
    # And a plain piece that is called like the old end symbol is not the end symbol.
    Renamed.vocab_size = 6
    monkeypatch.setattr(Renamed, "pieces", lambda self, ids: ["a", "b", "c", "d", "eins", "</s>"])
    assert old.eos_id not in map_pieces(old, Renamed()).parts[5]
