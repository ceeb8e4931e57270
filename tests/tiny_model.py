"""A tiny random model with a real tokenizer, as a Hugging Face directory: what every room's tests serve."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

__all__ = ["build_tiny_model"]

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

SENTENCES = (
    "The quick brown fox jumps over the lazy dog while the river runs slowly to the sea.",
    "A server that answers quickly is worth more than a server that answers loudly.",
    "Throughput grows with the batch until the memory or the patience of the user is full.",
    "Every measurement needs an interval, and every interval needs enough requests.",
    "Write the answer in one short sentence, please, and explain why it is the right answer.",
    "What is the capital of France? The capital of France is Paris, on the river Seine.",
    "Tell me a story about an engineer who tuned a machine and found that it was already good.",
    "You are a helpful assistant. Summarise the following text and list three important points.",
    "import torch\n\ndef forward(self, tokens):\n    return self.layers(tokens)\n",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. 你好，世界 🙂🚀",
)

TINY_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
    "dtype": "float32",
}

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
}

GEMMA3_CONFIG: dict[str, Any] = {
    "query_pre_attn_scalar": 24,
    "sliding_window": 48,
    "layer_types": ["sliding_attention", "full_attention"],
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 4.0},
    },
}


def build_tiny_model(directory: Path, *, seed: int = 0, **overrides: Any) -> Path:
    """Write a random 2-layer GQA llama of 0.1M parameters into `directory` and return it.

    `overrides` replace keys of config.json: `model_type="qwen2"` gives q, k and v a bias, "qwen3" norms on them,
    "gemma3_text" all that Gemma 3 has; `tie_word_embeddings=False` adds an output head. The weights are spread widely
    (not 0.02), so that what the model says depends on its context. The vocabulary is padded to 512, more than the
    tokenizer knows, as in many real models.
    """
    directory.mkdir(parents=True, exist_ok=True)
    config = {**TINY_CONFIG, **overrides}
    if "architectures" not in overrides:
        config["architectures"] = [ARCHITECTURES[config["model_type"]]]
    if config["model_type"] == "gemma3_text":
        config = {**GEMMA3_CONFIG, **config, "hidden_activation": "gelu_pytorch_tanh"}
        if "rope_parameters" not in overrides:
            config["rope_parameters"] = GEMMA3_CONFIG["rope_parameters"]
    write_tokenizer(directory)
    dtype = getattr(torch, config["dtype"])
    weights = {name: tensor.to(dtype) for name, tensor in random_weights(config, seed).items()}
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "config.json").write_text(json.dumps(config, indent=2))
    (directory / "generation_config.json").write_text(json.dumps({"bos_token_id": 1, "eos_token_id": 2}))
    return directory


def random_weights(config: dict[str, Any], seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    query_rows, kv_rows = config["num_attention_heads"] * head, config["num_key_value_heads"] * head

    def normal(*shape: int, spread: float) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * spread

    def norm(width: int) -> torch.Tensor:
        return normal(width, spread=0.1) + (config["model_type"] != "gemma3_text")  # Gemma's are stored less one

    weights = {"model.embed_tokens.weight": normal(config["vocab_size"], hidden, spread=1.0)}
    for index in range(config["num_hidden_layers"]):
        layer = f"model.layers.{index}."
        for name, rows in (("q_proj", query_rows), ("k_proj", kv_rows), ("v_proj", kv_rows)):
            weights[f"{layer}self_attn.{name}.weight"] = normal(rows, hidden, spread=2 * hidden**-0.5)
            if config["model_type"] == "qwen2" or config["attention_bias"]:
                weights[f"{layer}self_attn.{name}.bias"] = normal(rows, spread=0.1)
        weights[f"{layer}self_attn.o_proj.weight"] = normal(hidden, query_rows, spread=2 * query_rows**-0.5)
        if config["attention_bias"]:
            weights[f"{layer}self_attn.o_proj.bias"] = normal(hidden, spread=0.1)
        weights[f"{layer}mlp.gate_proj.weight"] = normal(inner, hidden, spread=hidden**-0.5)
        weights[f"{layer}mlp.up_proj.weight"] = normal(inner, hidden, spread=hidden**-0.5)
        weights[f"{layer}mlp.down_proj.weight"] = normal(hidden, inner, spread=2 * inner**-0.5)
        if config["mlp_bias"]:
            for name, rows in (("gate_proj", inner), ("up_proj", inner), ("down_proj", hidden)):
                weights[f"{layer}mlp.{name}.bias"] = normal(rows, spread=0.1)
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{layer}{name}.weight"] = norm(hidden)
        if config["model_type"] in ("qwen3", "gemma3_text"):
            for name in ("q_norm", "k_norm"):
                weights[f"{layer}self_attn.{name}.weight"] = norm(head)
        if config["model_type"] == "gemma3_text":
            for name in ("pre_feedforward_layernorm", "post_feedforward_layernorm"):
                weights[f"{layer}{name}.weight"] = norm(hidden)
    weights["model.norm.weight"] = norm(hidden)
    if not config["tie_word_embeddings"]:
        weights["lm_head.weight"] = normal(config["vocab_size"], hidden, spread=1.0)
    return weights


def write_tokenizer(directory: Path) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=480,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.save(str(directory / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|im_end|>",
        "unk_token": "<|endoftext|>",
        "model_max_length": 1_000_000,
        "clean_up_tokenization_spaces": False,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings, indent=2))
    (directory / "chat_template.jinja").write_text(CHAT_TEMPLATE)
