"""What /metrics has, by name: help texts, labels, bucket bounds. Names stand without `engine_` and `_total`."""

from __future__ import annotations

from collections.abc import Mapping

from engine.histogram import COUNT_BOUNDS, LATENCY_BOUNDS, STEP_BOUNDS, TOKEN_BOUNDS, TOKEN_LATENCY_BOUNDS

__all__ = ["COUNTERS", "GAUGES", "HISTOGRAMS", "LABELLED_COUNTERS"]

COUNTERS: Mapping[str, str] = {
    "prompt_tokens": "Prompt tokens of requests whose prompt has been read.",
    "prompt_tokens_cached": "Those of prompt_tokens that were found in the prefix cache.",
    "generation_tokens": "Tokens generated.",
    "prefix_cache_queries": "Prompt tokens looked up in the prefix cache; resumed requests don't look up again.",
    "prefix_cache_hits": "Prompt tokens found in the prefix cache.",
    "num_preemptions": "Times a sequence had to give its blocks up.",
    "recomputed_tokens": "Tokens computed once more because their sequence was preempted.",
    "corrupted_requests": "Requests whose logits were not all finite.",
    "requests_rejected": "Requests answered 503.",
    "estimated_flops_per_gpu": "FLOP that the steps needed, by formula; over the seconds of steps: the speed achieved.",
    "estimated_read_bytes_per_gpu": "Bytes of weights and KV cache that the steps had to read, by formula.",
    "estimated_write_bytes_per_gpu": "Bytes that the steps wrote to the KV cache, by formula.",
}
LABELLED_COUNTERS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "request_success": (
        "Requests that ended, whatever the reason.",
        "finished_reason",
        ("stop", "length", "abort", "deadline", "error"),
    ),
    "admission_rejections": ("Requests answered 503, by reason.", "reason", ("max_num_queued_reqs",)),
    "prompt_tokens_by_source": ("prompt_tokens, by origin.", "source", ("local_compute", "local_cache_hit")),
    "steps": (
        "Steps computed: replayed from a captured graph, or launched one kernel at a time.",
        "mode",
        ("eager", "graph"),
    ),
}
GAUGES: Mapping[str, str] = {
    "num_requests_running": "Sequences being computed.",
    "num_requests_waiting": "Requests not yet admitted.",
    "kv_cache_usage_perc": "Share of KV blocks in use, 0 to 1; cached ones count as free.",
}
HISTOGRAMS: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "time_to_first_token_seconds": ("Arrival to first token.", TOKEN_LATENCY_BOUNDS),
    "inter_token_latency_seconds": ("Between tokens of a request.", TOKEN_LATENCY_BOUNDS),
    "request_time_per_output_token_seconds": ("Decode time over tokens after the first.", TOKEN_LATENCY_BOUNDS),
    "e2e_request_latency_seconds": ("Arrival to last token.", LATENCY_BOUNDS),
    "request_queue_time_seconds": ("Arrival to first admission.", LATENCY_BOUNDS),
    "request_prefill_time_seconds": ("First admission to first token.", LATENCY_BOUNDS),
    "request_decode_time_seconds": ("First token to last.", LATENCY_BOUNDS),
    "request_inference_time_seconds": ("First admission to last token.", LATENCY_BOUNDS),
    "request_prompt_tokens": ("Prompt tokens of a request.", TOKEN_BOUNDS),
    "request_generation_tokens": ("Tokens generated for a request.", TOKEN_BOUNDS),
    "request_params_max_tokens": ("max_tokens of a request.", TOKEN_BOUNDS),
    "request_prefill_kv_computed_tokens": ("Prompt tokens of a request that no cache held.", TOKEN_BOUNDS),
    "request_num_preemptions": ("Times a request was preempted.", COUNT_BOUNDS[:7]),
    "iteration_tokens_total": ("Tokens computed in a step.", COUNT_BOUNDS),
    "step_prefill_tokens": ("Prompt tokens (and recomputed ones) in a step.", COUNT_BOUNDS),
    "step_decode_tokens": ("New tokens in a step.", COUNT_BOUNDS[:12]),
    "step_sequences": ("Sequences in a step.", COUNT_BOUNDS[:12]),
    "step_time_seconds": ("Computation of a step, on the device that runs the model.", STEP_BOUNDS),
    "host_gap_seconds": ("Between two steps while there was work: the device waited for the host.", STEP_BOUNDS),
}
