"""What a GGUF file calls things, in the words of config.json and of transformers' checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["GgufError", "config_of", "generation_of", "name_of", "value_of"]

ARCHITECTURES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "llama": ("LlamaForCausalLM", "llama"),
        "qwen2": ("Qwen2ForCausalLM", "qwen2"),
        "qwen3": ("Qwen3ForCausalLM", "qwen3"),
        "gemma3": ("Gemma3ForCausalLM", "gemma3_text"),
    }
)

TOP: Mapping[str, str] = MappingProxyType(
    {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
)

LAYER: Mapping[str, str] = MappingProxyType(
    {
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "attn_q_norm": "self_attn.q_norm",
        "attn_k_norm": "self_attn.k_norm",
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
        "post_ffw_norm": "post_feedforward_layernorm",
    }
)

ENDS_OF_TURN = frozenset({"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>"})
"""Control tokens after which a chat model has nothing more to say; few files name more than one as such."""

CONTROL = 3
"""Token type of a control token in GGUF."""


class GgufError(Exception):
    """A GGUF file that can't be converted, and what to do."""


def value_of(reader: Any, key: str, default: Any = None) -> Any:
    """The metadata `key`; `default` where it is absent and there is one.

    Raises:
        GgufError: it is absent and there is no default.
    """
    field = reader.get_field(key)
    if field is not None:
        return field.contents()
    if default is None:
        raise GgufError(f"the file lacks {key}")
    return default


def name_of(name: str, model_type: str) -> str:
    """transformers' name of the tensor `name`.

    Raises:
        GgufError: a tensor that no known model has.
    """
    stem, _, kind = name.rpartition(".")
    if stem in TOP:
        return f"{TOP[stem]}.{kind}"
    parts = stem.split(".", 2)
    if len(parts) != 3 or parts[0] != "blk" or parts[2] not in LAYER:
        raise GgufError(f"the file has a tensor {name}, which no known architecture has (a mixture of experts?)")
    ours = LAYER[parts[2]]
    if model_type == "gemma3_text" and parts[2] == "ffn_norm":
        ours = "pre_feedforward_layernorm"
    return f"model.layers.{parts[1]}.{ours}.{kind}"


def config_of(reader: Any, dtype: str, is_tied: bool) -> dict[str, Any]:
    """config.json of the model.

    Raises:
        GgufError: an architecture, or a variant of one, that isn't known.
    """
    kind = str(value_of(reader, "general.architecture"))
    if kind not in ARCHITECTURES:
        raise GgufError(f"the file's architecture is {kind}; known ones are {', '.join(ARCHITECTURES)}")

    def of(key: str, default: Any = None) -> Any:
        return value_of(reader, f"{kind}.{key}", default)

    shapes = {tensor.name: tensor.shape.tolist() for tensor in reader.tensors}
    heads, hidden = int(of("attention.head_count")), int(of("embedding_length"))
    kv_heads = of("attention.head_count_kv", heads)
    if not isinstance(kv_heads, int):
        raise GgufError("the file's layers differ in their number of key heads, which isn't known")
    head_dim = int(of("attention.key_length", hidden // heads))
    if int(of("rope.dimension_count", head_dim)) != head_dim:
        raise GgufError("the file rotates only a part of each head, which isn't known")
    architecture, model_type = ARCHITECTURES[kind]
    config = {
        "architectures": [architecture],
        "model_type": model_type,
        "vocab_size": shapes["token_embd.weight"][1],
        "hidden_size": hidden,
        "intermediate_size": int(of("feed_forward_length")),
        "num_hidden_layers": int(of("block_count")),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "max_position_embeddings": int(of("context_length")),
        "rms_norm_eps": decimal(of("attention.layer_norm_rms_epsilon")),
        "rope_parameters": rope_of(reader, kind),
        "tie_word_embeddings": is_tied,
        "dtype": dtype,
        **{key: value for key, value in generation_of(reader).items() if key != "eos_token_id"},
        "eos_token_id": int(value_of(reader, "tokenizer.ggml.eos_token_id")),
    }
    if kind != "qwen2":
        config["attention_bias"] = "blk.0.attn_q.bias" in shapes
    if kind == "llama":
        config["mlp_bias"] = "blk.0.ffn_down.bias" in shapes
    return config | (gemma3(reader, config) if kind == "gemma3" else {"hidden_act": "silu"})


def gemma3(reader: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """What Gemma 3 has beside. Only its 27B (62 layers) divides scores by other than the root of the head's width."""
    layers, heads = config["num_hidden_layers"], config["num_attention_heads"]
    local = decimal(value_of(reader, "gemma3.rope.freq_base_swa", 10000.0))
    return {
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": config["hidden_size"] // heads if layers == 62 else config["head_dim"],
        "sliding_window": int(value_of(reader, "gemma3.attention.sliding_window")),
        "layer_types": ["sliding_attention" if (i + 1) % 6 else "full_attention" for i in range(layers)],
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": local},
            "full_attention": config["rope_parameters"],
        },
        "final_logit_softcapping": value_of(reader, "gemma3.final_logit_softcapping", 0.0) or None,
    }


def rope_of(reader: Any, kind: str) -> dict[str, Any]:
    """Rotary settings. Llama 3.1's stretch stands in the file as a tensor of factors, one for each pair.

    Raises:
        GgufError: a stretch that isn't known.
    """
    default_theta = 1_000_000.0 if kind == "gemma3" else 10_000.0
    theta = decimal(value_of(reader, f"{kind}.rope.freq_base", default_theta))
    for tensor in reader.tensors:
        if tensor.name == "rope_freqs.weight":
            return llama3(tensor.data, theta)
    scaling = str(value_of(reader, f"{kind}.rope.scaling.type", "none"))
    if scaling == "none":
        return {"rope_type": "default", "rope_theta": theta}
    if scaling not in ("linear", "yarn"):
        raise GgufError(f"the file's rotary positions are stretched by {scaling}; known ways are linear and yarn")
    rope = {
        "rope_type": scaling,
        "rope_theta": theta,
        "factor": decimal(value_of(reader, f"{kind}.rope.scaling.factor")),
    }
    if scaling == "yarn":
        rope["original_max_position_embeddings"] = int(value_of(reader, f"{kind}.rope.scaling.original_context_length"))
    return rope


def llama3(factors: Any, theta: float) -> dict[str, Any]:
    """The settings that yield `factors` [pairs], if they are those of Llama 3.1 and 3.2."""
    import numpy as np

    low, high, original, factor = 1.0, 4.0, 8192, decimal(factors.max())
    pairs = len(factors)
    wavelengths = 2 * np.pi * theta ** (np.arange(pairs) / pairs)
    blend = np.clip((original / wavelengths - low) / (high - low), 0, 1)
    if not np.allclose(factors, 1 / ((1 - blend) / factor + blend), rtol=1e-3):
        raise GgufError("the file's rope_freqs.weight isn't Llama 3.1's stretch; no other is known")
    return {
        "rope_type": "llama3",
        "rope_theta": theta,
        "factor": factor,
        "low_freq_factor": low,
        "high_freq_factor": high,
        "original_max_position_embeddings": original,
    }


def generation_of(reader: Any) -> dict[str, Any]:
    """generation_config.json: the tokens that begin, end and pad. A chat model ends at the end of a turn too."""
    ids = {
        f"{name}_token_id": int(value_of(reader, f"tokenizer.ggml.{key}_token_id"))
        for name, key in (("bos", "bos"), ("pad", "padding"))
        if reader.get_field(f"tokenizer.ggml.{key}_token_id") is not None
    }
    ends = [value_of(reader, f"tokenizer.ggml.{key}_token_id", -1) for key in ("eos", "eot", "eom")]
    kinds, names = (reader.get_field(f"tokenizer.ggml.{key}") for key in ("token_type", "tokens"))
    if kinds is not None and names is not None:
        controls = [index for index, kind in enumerate(kinds.contents()) if kind == CONTROL]
        ends += [index for index in controls if names.contents(index) in ENDS_OF_TURN]
    found = list(dict.fromkeys(int(token) for token in ends if token >= 0))
    return {**ids, "eos_token_id": found if len(found) != 1 else found[0]}


def decimal(value: Any) -> float:
    """A number that was rounded to fp32, as it was written before that."""
    import numpy as np

    return float(str(np.float32(value)))
