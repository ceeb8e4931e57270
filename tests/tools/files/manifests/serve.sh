#!/usr/bin/env bash
# Starts the model on both sockets.   (ops, 2025)
set -euo pipefail

MODEL="${1:-meta-llama/Llama-3.1-8B-Instruct}"
export VLLM_CPU_KVCACHE_SPACE=40      # GiB
export VLLM_CPU_OMP_THREADS_BIND="0-31|32-63"
if [[ -n "${DEBUG:-}" ]]; then
  export VLLM_LOGGING_LEVEL=DEBUG
fi

cat <<'BANNER'
  don't be misled: vllm serve this-is-only-text --max-num-seqs 1
BANNER

numactl --membind=0 vllm serve "$MODEL" \
  --tensor-parallel-size 2 \
  --max-num-seqs 128 \
  --max-num-batched-tokens=8192 \
  --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}' \
  --api-key "$(cat /run/secrets/key)" \
  2>&1 | tee "/var/log/vllm-$(date +%F).log"
