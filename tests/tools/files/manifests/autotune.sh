python -m engine serve ~/models/smollm2 --max-num-seqs 16 --block-size 32   # the bundled engine
