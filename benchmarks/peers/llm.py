"""A pretrained causal language model, fine-tuned with LoRA on entities as JSON (transformers, peft). Runs in an environment of its own.

The environment variable KBDISK_LLM names the folder of its weights, as transformers stores them. It learns to predict the next token of each
entity as a JSON object: ten times over with the keys in another order, and all that in two passes, as in the DiSK paper. Then it gets the other keys and
values of an entity and the key that is asked for, and writes the value, greedily. What is no JSON value of the right type, with a
comma or a brace behind it, is a parse error and is left to the constant; settings have their share.

Time decides how much of this is learnt, and how many cells are asked for: settings have the passes over all entities, 20 at most.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, StoppingCriteria, StoppingCriteriaList

from benchmarks.peers.exchange import CannotError, Clock, Record, Request, Settings, serve, set_threads, timed_blocks

ORDERS, EPOCHS = 10, 2  # of the keys of each entity; passes over all of these
TRAINING_SHARE = 0.6  # of the time
BATCH = 4  # entities of a step
RATE, RANK, ALPHA, DROPOUT = 1e-4, 8, 32, 0.05  # of LoRA, as llama-recipes has them
MAX_TOKENS = 1024  # of an entity; of longer ones the last
MAX_ANSWER = 48  # tokens
PROMPTS = 16  # decoded at once


def complete(request: Request, records: list[Record], clock: Clock) -> tuple[list[Any], Settings]:
    """The values that the fine-tuned model writes."""
    tokenizer, model = load(request, clock)
    try:
        model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=RANK, lora_alpha=ALPHA, lora_dropout=DROPOUT))
    except ValueError as error:
        raise CannotError(f"expected an architecture that peft has LoRA layers for, got: {error}") from None
    passes = _fine_tune(tokenizer, model, request, records, clock)
    clock.end_fit()
    values, settings = write_values(tokenizer, model, request, records, clock)
    return values, settings | {"passes": round(passes, 2)}


def load(request: Request, clock: Clock) -> tuple[Any, Any]:
    """The tokenizer and the model of the request."""
    clock.refuse_no_time()
    set_threads()
    torch.manual_seed(request.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    try:
        tokenizer = AutoTokenizer.from_pretrained(request.weights, local_files_only=True, padding_side="left")
        model = AutoModelForCausalLM.from_pretrained(request.weights, local_files_only=True, dtype=dtype)
    except (OSError, ValueError) as error:
        name, reason = Path(request.weights).name, str(error).partition("\n")[0]
        raise CannotError(
            f"expected the weights and tokenizer of a causal language model in {name}, got: {reason}"
        ) from None
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer, model.to(device)


# ---------------------------------------------------------------- JSON


def as_json(record: Record, draw: random.Random) -> str:
    """An entity with its keys in random order."""
    return json.dumps(dict(draw.sample(list(record.items()), len(record))), ensure_ascii=False)


def prompt_of(record: Record, key: str, draw: random.Random) -> str:
    """All of an entity but for the value of a key, which comes last."""
    others = as_json({name: value for name, value in record.items() if name != key}, draw)
    return f"{others[:-1]}{', ' if len(others) > 2 else ''}{json.dumps(key, ensure_ascii=False)}:"


def parsed(text: str) -> Any:
    """The JSON value at the begin of a text, with a comma or a brace behind it; None where there is none."""
    text = text.lstrip()
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return None
    is_plain = isinstance(value, str | bool | int | float)
    return value if is_plain and text[end:].lstrip()[:1] in (",", "}") else None


def has_type(value: Any, is_number: bool) -> bool:
    """Whether a value is a finite number, or anything else."""
    is_finite = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return is_finite if is_number else isinstance(value, str | bool)


# ---------------------------------------------------------------- the model


def _fine_tune(tokenizer: Any, model: Any, request: Request, records: Sequence[Record], clock: Clock) -> float:
    """Learn all orders of the keys within a share of the time; the passes over the entities."""
    draw, learnt = random.Random(request.seed), 0
    places = [place for place, record in enumerate(records[: request.train_count]) if record] * ORDERS
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=RATE, weight_decay=0.0)
    model.train()
    for _ in range(EPOCHS):
        draw.shuffle(places)
        for begin in range(0, len(places), BATCH):
            if clock.elapsed >= TRAINING_SHARE * clock.limit:
                break
            texts = [as_json(records[place], draw) for place in places[begin : begin + BATCH]]
            batch = _tokens(tokenizer, [text + tokenizer.eos_token for text in texts]).to(model.device)
            targets = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
            optimizer.zero_grad()
            model(**batch, labels=targets).loss.backward()
            optimizer.step()
            learnt += len(texts)
    return learnt * ORDERS / max(len(places), 1)


def _tokens(tokenizer: Any, texts: list[str]) -> Any:
    """Texts as tokens, padded and cut on the left."""
    tokenizer.truncation_side = "left"
    return tokenizer(texts, return_tensors="pt", padding=True, truncation=True, max_length=MAX_TOKENS)


class _HasValue(StoppingCriteria):  # type: ignore[misc]
    """Stops a prompt whose value is written, or that goes on in another line."""

    def __init__(self, tokenizer: Any, begin: int) -> None:
        self.tokenizer, self.begin = tokenizer, begin

    def __call__(self, tokens: torch.Tensor, scores: torch.Tensor, **options: Any) -> torch.Tensor:
        texts = self.tokenizer.batch_decode(tokens[:, self.begin :], skip_special_tokens=True)
        is_done = [parsed(text) is not None or "\n" in text.strip() for text in texts]
        return torch.tensor(is_done, device=tokens.device)


@torch.no_grad()
def write_values(
    tokenizer: Any, model: Any, request: Request, records: Sequence[Record], clock: Clock
) -> tuple[list[Any], Settings]:
    """A value for each question, as far as there is time; None where none parses."""
    draw, values = random.Random(request.seed), [None] * len(request.questions)
    order = draw.sample(range(len(values)), len(values))
    asked = 0
    model.eval()
    for block in timed_blocks(order, 1, clock):
        prompts = {
            place: prompt_of(records[entity], key, draw)
            for place in block
            for entity, key, _ in [request.questions[place]]
        }
        by_length = sorted(block, key=lambda place: len(prompts[place]))
        for begin in range(0, len(by_length), PROMPTS):
            places = by_length[begin : begin + PROMPTS]
            batch = _tokens(tokenizer, [prompts[place] for place in places]).to(model.device)
            T = batch["input_ids"].shape[1]
            stop = StoppingCriteriaList([_HasValue(tokenizer, T)])
            tokens = model.generate(
                **batch, max_new_tokens=MAX_ANSWER, do_sample=False, stopping_criteria=stop,
                pad_token_id=tokenizer.pad_token_id,
            )  # fmt: skip
            for place, text in zip(
                places, tokenizer.batch_decode(tokens[:, T:], skip_special_tokens=True), strict=True
            ):
                value = parsed(text)
                values[place] = value if has_type(value, request.questions[place][2]) else None
        asked += len(block)
    errors = asked - sum(value is not None for value in values)
    return values, {
        "weights": Path(request.weights).name,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "asked": asked,
        "parse_errors": errors,
        "parse_error_rate": round(errors / max(asked, 1), 4),
    }


if __name__ == "__main__":
    serve(complete=complete)
