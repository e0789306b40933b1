# SPDX-License-Identifier: BSD-3-Clause
# What needs the driver's libraries is loaded when it runs: CUDA's header, where configure found it, is all that is built against.
noinst_LIBRARIES += worker/agent/gpu/libgpu.a
worker_agent_gpu_libgpu_a_CPPFLAGS = $(AM_CPPFLAGS) $(NVML_CPPFLAGS) $(CUDA_CPPFLAGS)
worker_agent_gpu_libgpu_a_SOURCES = \
	worker/agent/gpu/affinity.c \
	worker/agent/gpu/claim.h worker/agent/gpu/claim.c \
	worker/agent/gpu/checkpoint.h worker/agent/gpu/checkpoint.c \
	worker/agent/gpu/cpu_use.c \
	worker/agent/gpu/death_report.c \
	worker/agent/gpu/probe.h worker/agent/gpu/probe_client.h worker/agent/gpu/probe_client.c \
	worker/agent/gpu/gpu_processes.c \
	worker/agent/gpu/allocations.h worker/agent/gpu/allocations.c \
	worker/agent/gpu/driver.h worker/agent/gpu/driver.c \
	worker/agent/gpu/events.c \
	worker/agent/gpu/gpu.h worker/agent/gpu/gpu.c \
	worker/agent/gpu/gpu_list.h worker/agent/gpu/gpu_list.c \
	worker/agent/gpu/nvml_headers.c \
	worker/agent/gpu/lease.h worker/agent/gpu/lease.c worker/agent/gpu/lease_said.c \
	worker/agent/gpu/inherited_mask.c \
	worker/agent/gpu/lease_holders.h worker/agent/gpu/lease_holders.c \
	worker/agent/gpu/nvml.h worker/agent/gpu/nvml.c \
	worker/agent/gpu/probe.h worker/agent/gpu/probe.c \
	worker/agent/gpu/headroom.h worker/agent/gpu/headroom.c \
	worker/agent/gpu/quota.c worker/agent/gpu/readings.c worker/agent/gpu/turn.h worker/agent/gpu/turn.c worker/agent/gpu/waiting.c \
	worker/agent/gpu/assign.c \
	worker/agent/gpu/moves.c \
	worker/agent/gpu/gpu_errors.h worker/agent/gpu/gpu_errors.c

# A process of its own that asks the driver; see README.md.
pkglibexec_PROGRAMS += cellspan-gpus
cellspan_gpus_SOURCES = worker/agent/gpu/main.c
cellspan_gpus_LDADD = worker/agent/gpu/libgpu.a worker/collective/libcollective.a base/libbase.a $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
EXTRA_DIST += worker/agent/gpu/README.md
