#!/bin/bash
cd "$(dirname "$0")" || exit 1
source ./venv/bin/activate

OMP_NUM_THREADS=8 LLAMA_ARG_FLASH_ATTN=on nohup ./build/bin/llama-server \
	-m "models/Qwen3 8B Q4_K_M.gguf" \
	-c 32768 \
	-np 4 --cont-batching \
	-t 8 -b 2048 -ub 512 \
	--cache-type-k q8_0 > llama.log 2>&1 &

echo $! > llama.pid
