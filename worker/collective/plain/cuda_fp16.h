/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_fp16.h - see cuda_runtime.h. nccl.h includes this file but uses nothing of it in C. */
