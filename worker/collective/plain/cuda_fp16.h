/* cuda_fp16.h - see cuda_runtime.h beside it: nccl.h includes it, and uses nothing of it in C. */
