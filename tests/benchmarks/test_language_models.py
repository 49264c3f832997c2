"""Language models as peers: entities as records and as tokens, the network, its decoding, and a pretrained model of a user's."""

from __future__ import annotations

import json
import math
import random
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from imputations import imputation_of, ratios

from benchmarks.masking import Cell, Masked, Property
from benchmarks.peers import environments, lm_scratch, registry
from benchmarks.peers.environments import environment, missing
from benchmarks.peers.exchange import COMPLETE, RECORDS, REPORT, VALUES, Request, serve
from benchmarks.peers.lm_scratch import MANTISSA, RESOLUTION, NumberFormat, Tokenizer, decode, next_token_loss
from benchmarks.peers.outside import shortened
from benchmarks.peers.protocol import Imputation, PeerError
from benchmarks.peers.records import Records
from kbdisk.entity import Coordinate, Entity

SIZE: Property = (("size",), "", "number")
COLOUR: Property = (("colour",), "", "label")
NAME: Property = (("name",), "", "label")


def things(count: int = 40) -> list[Entity]:
    return [
        Entity(
            f"e{n}",
            {"size": 10.0 + n / 4, "colour": ("red", "blue")[n % 2], "name": f"thing {n}", "at": Coordinate(n, -n)},
            ("Thing",),
        )
        for n in range(count)
    ]


def records_of(entities: list[Entity], train_count: int | None = None) -> Records:
    """Records where the last entity is asked for its size and its colour."""
    last = len(entities) - 1
    cells = [Cell(last, ("size",), SIZE, 0.0), Cell(last, ("colour",), COLOUR, "")]
    return Records.of(Imputation.of(Masked(entities, cells), train_count=train_count))


def model_of(records: Records, **settings: int) -> lm_scratch._LanguageModel:
    chosen = lm_scratch.Settings(**{"layers": 2, "width": 16, "batch": 8, "passes": 1, **settings})
    model = lm_scratch._LanguageModel(records, Tokenizer.of(records), chosen, 0)
    model.network = model._new_network(chosen)
    return model


# ---------------------------------------------------------------- records and tokens


def test_a_record_has_each_single_value_beside_its_key_and_the_classes():
    records = records_of(things())
    values = {item.key: item.value for item in records.entities[3]}
    assert values == {
        ("@type",): "Thing",
        ("size",): 10.75,
        ("colour",): "blue",
        ("name",): "thing 3",
        ("at", "latitude"): 3.0,
        ("at", "longitude"): -3.0,
    }
    assert records.texts == {NAME}
    assert [question[1:] for question in records.questions] == [(39, ("size",), SIZE), (39, ("colour",), COLOUR)]


def test_tokens_are_those_of_the_entities_that_are_learnt_from():
    entities = [*things(), Entity("new", {"size": 1.0, "colour": "green", "name": "q"})]
    tokens = Tokenizer.of(records_of(entities, train_count=40)).tokens
    assert ("label", "blue") in tokens
    assert ("label", "green") not in tokens
    assert ("character", "q") not in tokens


def test_an_item_is_a_token_for_each_word_label_and_digit():
    tokenizer = Tokenizer.of(records_of(things()))
    by_key = {item.key: [tokenizer.tokens[place][1] for place in tokenizer.item(item)] for item in things_items()}
    assert by_key["size",] == ["size", ":", *"10.75"]
    assert by_key["colour",] == ["colour", ":", "blue"]
    assert by_key["name",] == ["name", ":", *"thing 3"]
    assert by_key["at", "latitude"] == ["at", ".", "latitude", ":", "3"]


def things_items():
    return records_of(things()).entities[3]


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30), st.data())
def test_a_written_number_is_read_within_its_resolution(known, data):
    written = NumberFormat.of(known)
    value = data.draw(st.sampled_from(known))
    again = float(written.write(value))
    spread = max(known) - min(known)
    if written.is_scientific:
        assert again == pytest.approx(value, rel=10**-MANTISSA)
    else:
        assert abs(again - value) <= max(spread / RESOLUTION, 0.5 * 10**-written.decimals + 1e-9)


@pytest.mark.parametrize(
    ("known", "value", "written"),
    [
        ([1.0, 2.0, 30.0], 7.0, "7"),
        ([0.011, 0.012, 0.039, 0.015], 0.0123, "0.0123"),
        ([1.5, 20.5, 3000.5, 400000.5], 1234.5, "1.23e3"),
        ([1.5, 20.5, 3000.5, 400000.5], 0.012, "1.20e-2"),
    ],
)
def test_numbers_have_as_many_digits_as_their_spread_needs(known, value, written):
    assert NumberFormat.of(known).write(value) == written


@pytest.mark.parametrize(
    ("of", "text", "value"),
    [
        (SIZE, "12.5", 12.5),
        (SIZE, "1.2.5", None),
        (SIZE, "", None),
        (SIZE, "-", None),
        (NAME, "thing 4", "thing 4"),
        (NAME, "", None),
    ],
)
def test_characters_parse_as_a_number_or_a_text(of, text, value):
    tokenizer = Tokenizer.of(records_of(things()))
    assert tokenizer.parse(of, tokenizer.ids([("character", character) for character in text])) == value


def test_a_label_parses_if_it_is_one_of_the_property():
    tokenizer = Tokenizer.of(records_of(things()))
    red, thing = tokenizer.ids([("label", "red"), ("label", "Thing")])
    assert tokenizer.parse(COLOUR, [red]) == "red"
    assert tokenizer.parse(COLOUR, [thing]) is None
    assert tokenizer.parse(COLOUR, [red, red]) is None
    assert tokenizer.parse(SIZE, [red]) is None


def test_a_sequence_has_all_items_in_another_order_each_time_and_ends_with_the_key_that_is_asked():
    records = records_of(things())
    model, draw = model_of(records), random.Random(0)
    first, second = (model.sequence(3, draw) for _ in range(2))
    assert first != second
    assert sorted(first) == sorted(second)
    assert first[-1] == model.end
    prompt = model.sequence(3, draw, ("size",))
    key = model.tokenizer.key(("size",))
    assert prompt[-len(key) :] == key
    assert prompt[-len(key) - 1] == model.comma


def test_items_beyond_the_context_are_left_out():
    records = records_of(things())
    model = model_of(records, context=20)
    lengths = {len(model.sequence(3, random.Random(seed))) for seed in range(20)}
    assert max(lengths) <= 20
    assert len(lengths) > 1


# ---------------------------------------------------------------- the network


def test_the_loss_is_the_mean_over_all_tokens_and_padding_does_not_count():
    network = model_of(records_of(things())).network.eval()
    sequences = [[1, 5, 7, 3], [2, 6]]
    single = [next_token_loss(network, [sequence]).item() for sequence in sequences]
    assert next_token_loss(network, sequences).item() == pytest.approx((3 * single[0] + single[1]) / 4, rel=1e-5)


def test_a_network_before_training_knows_nothing():
    model = model_of(records_of(things()))
    loss = next_token_loss(model.network, [model.sequence(place, model.draw) for place in range(8)]).item()
    assert loss == pytest.approx(math.log(len(model.tokenizer.tokens)), rel=0.1)


def test_a_token_depends_on_those_before_it_alone():
    network = model_of(records_of(things())).network.eval()
    tokens = torch.tensor([[1, 5, 7, 3]])
    changed = torch.tensor([[1, 5, 7, 9]])
    first, second = network(tokens)[0], network(changed)[0]
    assert torch.allclose(first[:, :3], second[:, :3], atol=1e-5)
    assert not torch.allclose(first[:, 3], second[:, 3], atol=1e-5)


def test_decoding_token_by_token_is_what_the_whole_sequence_predicts():
    network = model_of(records_of(things())).network.eval()
    prompts = [[1, 5, 7], [2, 6, 4, 8, 3], [9]]
    for prompt, decoded in zip(prompts, decode(network, prompts, 4, ()), strict=True):
        assert len(decoded) == 5
        for place in range(5):
            logits = network(torch.tensor([prompt + decoded[:place]]))[0][0, -1]
            assert (logits.max() - logits[decoded[place]]).item() < 1e-5


def test_what_is_decoded_stops_before_an_end():
    network = model_of(records_of(things())).network.eval()
    ((first, *_),) = decode(network, [[1, 5, 7]], 4, ())
    assert decode(network, [[1, 5, 7]], 4, (first,)) == [[]]


@pytest.mark.slow
def test_the_network_is_as_wide_as_the_time_allows_and_says_so():
    settings = registry.fill("lm-scratch", imputation_of(8.0)).settings
    assert settings["width"] in lm_scratch.WIDTHS
    assert settings["passes"] > 0
    assert settings["asked"] == len(imputation_of().masked.cells)
    assert settings["parse_error_rate"] == pytest.approx(settings["parse_errors"] / settings["asked"], abs=1e-4)


# ---------------------------------------------------------------- a pretrained model


TINY_LLAMA = """
import json, sys
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

folder, steps, *texts = sys.argv[1:]
alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
tokens = Tokenizer(models.BPE({token: place for place, token in enumerate(["</s>", *alphabet])}, []))
tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
tokens.decoder = decoders.ByteLevel()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokens, eos_token="</s>")
torch.manual_seed(0)
torch.set_num_threads(1)
model = LlamaForCausalLM(LlamaConfig(
    vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
    max_position_embeddings=512, bos_token_id=0, eos_token_id=0,
))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for step in range(int(steps)):
    optimizer.param_groups[0]["lr"] = 5e-3 * (1 - step / int(steps))
    chosen = torch.randint(len(texts), (16,)).tolist()
    ids = [tokenizer(texts[place] + "</s>")["input_ids"] for place in chosen]
    T = max(map(len, ids))
    batch = torch.tensor([row + [0] * (T - len(row)) for row in ids])
    targets = torch.tensor([row + [-100] * (T - len(row)) for row in ids])
    optimizer.zero_grad()
    model(input_ids=batch, labels=targets).loss.backward()
    optimizer.step()
model.save_pretrained(folder)
tokenizer.save_pretrained(folder)
"""


def test_a_peer_that_reads_records_is_asked_and_answers_by_lines_of_json(tmp_path, monkeypatch):
    Request(COMPLETE, [], [], seed=7, train_count=1, questions=[(1, "c", False)], weights="w").write(tmp_path)
    (tmp_path / RECORDS).write_text('{"a": 1, "c": "x"}\n{"a": 2}\n')

    def complete(request, records, clock):
        assert records == [{"a": 1, "c": "x"}, {"a": 2}]
        assert (request.weights, request.train_count) == ("w", 1)
        assert [tuple(question) for question in request.questions] == [(1, "c", False)]
        clock.end_fit()
        return ["x", None], {"rounds": 1}

    monkeypatch.setattr(sys, "argv", ["peer", str(tmp_path)])
    serve(complete=complete)
    assert (tmp_path / VALUES).read_text() == '"x"\nnull\n'
    assert json.loads((tmp_path / REPORT).read_text())["settings"] == {"rounds": 1}


@pytest.mark.parametrize(
    ("value", "short"), [(151.0, 151), (0.1234567891, 0.123457), (1234567.0, 1234570), ("x", "x"), (True, True)]
)
def test_numbers_in_records_are_short(value, short):
    assert shortened(value) == short
    assert type(shortened(value)) is type(short)


PARSING = """
import random, sys
sys.path.insert(0, sys.argv[1])
from benchmarks.peers.llm import has_type, parsed, prompt_of

assert parsed(' 12.5}') == 12.5
assert parsed(' 12, "b": 3}') == 12
assert parsed(' "a}b" }') == "a}b"
assert [parsed(text) for text in ("", " 12", ' "a', ' "a" "b"', " {}}", " [1],", " 1.2.3}", " null}")] == 8 * [None]
assert has_type(1, True) and has_type("a", False) and has_type(True, False)
assert not has_type("1", True) and not has_type(True, True) and not has_type(1, False) and not has_type(None, False)
prompts = {prompt_of({"a": 1, "b": "x", "c": 2.5}, "b", random.Random(seed)) for seed in range(9)}
assert prompts == {'{"a": 1, "c": 2.5, "b":', '{"c": 2.5, "a": 1, "b":'}
assert prompt_of({"b": 1}, "b", random.Random(0)) == '{"b":'
"""


@pytest.mark.slow
def test_what_a_model_writes_is_a_value_if_a_comma_or_a_brace_follows_it():
    skip_without_environment()
    environment("llm").run("-c", PARSING, environments.CHECKOUT)


def skip_without_environment() -> None:
    if not environment("llm").versions:
        pytest.skip(f"llm: {missing('llm')}")


def tiny_llama(folder: Path, steps: int, monkeypatch) -> None:
    """A tiny Llama that has learnt objects like those of `related` for some steps, as the weights of the user."""
    draw = random.Random(1)
    texts = []
    for n in range(200):
        pairs = [("a", n % 10), ("b", 3 * (n % 10)), ("c", "xyz"[n % 10 // 4]), ("d[0].e", n % 10), ("d[1].e", 1)]
        texts.append(json.dumps(dict(draw.sample(pairs, len(pairs)))))
    environment("llm").run("-c", TINY_LLAMA, folder, steps, *texts)
    monkeypatch.setenv("KBDISK_LLM", str(folder))


@pytest.mark.parametrize("name", ["llm", "llm-zero-shot"])
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_model_with_random_weights_runs_from_end_to_end_and_its_parse_errors_are_counted(name, tmp_path, monkeypatch):
    skip_without_environment()
    tiny_llama(tmp_path / "tiny", 0, monkeypatch)
    imputation = Imputation.of(imputation_of().masked, seconds=20.0)
    filled = registry.fill(name, imputation)
    settings = filled.settings
    assert settings["weights"] == "tiny"
    assert settings["versions"].keys() == set(registry.PEERS[name].packages)
    assert settings["asked"] == len(imputation.masked.cells)
    assert settings["parse_errors"] == settings["asked"] - len(filled.answers)
    assert settings["parse_error_rate"] > 0.9
    assert filled.seconds.keys() == {"fit", "fill"}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_fine_tuned_model_writes_values_that_parse_beats_the_constant_on_labels_and_follows_its_seed(
    tmp_path, monkeypatch
):
    skip_without_environment()
    tiny_llama(tmp_path / "tiny", 600, monkeypatch)
    imputation = imputation_of()
    first, again = (registry.fill("llm", imputation) for _ in range(2))
    assert first.settings["passes"] == 20
    assert first.settings["parse_error_rate"] < 0.1
    assert first.answers == again.answers
    assert ratios(imputation, first)["c"] < 0.9  # the label; so small a model hardly learns the digits


def test_a_model_needs_a_folder_of_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(environments.Environment, "versions", {"torch": "1", "transformers": "1", "peft": "1"})
    for value in (None, str(tmp_path / "nowhere")):
        monkeypatch.setenv("KBDISK_LLM", value) if value else monkeypatch.delenv("KBDISK_LLM", raising=False)
        with pytest.raises(PeerError, match="llm: expected KBDISK_LLM to name a folder with the weights") as err:
            registry.fill("llm", imputation_of())
        assert len(str(err.value).splitlines()) == 1
    monkeypatch.setenv("KBDISK_LLM", str(tmp_path))
    assert missing("llm") is None
    assert missing("llm-zero-shot") is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seconds", "problem"),
    [
        (20.0, "llm: expected the weights and tokenizer of a causal language model"),
        (0.0, "expected time to train, got none"),
    ],
)
def test_what_a_model_lacks_is_refused_in_one_sentence(seconds, problem, tmp_path, monkeypatch):
    skip_without_environment()
    monkeypatch.setenv("KBDISK_LLM", str(tmp_path))
    with pytest.raises(PeerError, match=problem):
        registry.fill("llm", imputation_of(seconds))
