#!/bin/sh
docker run --gpus all --shm-size 32g -p 30000:30000 --env "HF_TOKEN=$TOKEN" --ipc=host lmsysorg/sglang:latest python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct --host 0.0.0.0 --port 30000 --schedule-policy lpm
