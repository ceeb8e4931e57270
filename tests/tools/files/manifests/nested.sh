#!/bin/sh
# quotes in quotes
ssh_opts="-o BatchMode=yes"
bash -lc "source /opt/env.sh && exec vllm serve 'Qwen/Qwen3-4B' --max-num-seqs 64 --compilation-config '{\"cudagraph_mode\": \"FULL\"}' --served-model-name \"vier\""
docker run --rm --entrypoint sh vllm/vllm-openai:latest -c 'vllm serve x --max-num-seqs 8'
