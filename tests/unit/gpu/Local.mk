# SPDX-License-Identifier: BSD-3-Clause
GPU_TEST_LIBS = worker/agent/gpu/libgpu.a worker/collective/libcollective.a base/libbase.a $(ZMQ_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
EXTRA_DIST += tests/unit/gpu/stage.h
check_PROGRAMS += \
	tests/unit/gpu/cuda_devices.t \
	tests/unit/gpu/allocations.t \
	tests/unit/gpu/checkpoint.t \
	tests/unit/gpu/moves.t \
	tests/unit/gpu/driver.t \
	tests/unit/gpu/lease.t \
	tests/unit/gpu/quota.t \
	tests/unit/gpu/headroom.t \
	tests/unit/gpu/turn.t \
	tests/unit/gpu/inherited_mask.t \
	tests/unit/gpu/gpu_errors.t
tests_unit_gpu_cuda_devices_t_SOURCES = tests/unit/gpu/cuda_devices.c
tests_unit_gpu_cuda_devices_t_LDADD = $(GPU_TEST_LIBS)
tests_unit_gpu_moves_t_SOURCES = tests/unit/gpu/moves.c
tests_unit_gpu_moves_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_gpu_moves_t_LDADD = $(GPU_TEST_LIBS)
tests_unit_gpu_checkpoint_t_SOURCES = tests/unit/gpu/checkpoint.c
tests_unit_gpu_checkpoint_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_gpu_checkpoint_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_gpu_checkpoint_t_LDADD = $(GPU_TEST_LIBS)
tests_unit_gpu_allocations_t_SOURCES = tests/unit/gpu/allocations.c
tests_unit_gpu_allocations_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_gpu_allocations_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_gpu_allocations_t_LDADD = $(GPU_TEST_LIBS)
tests_unit_gpu_driver_t_SOURCES = tests/unit/gpu/driver.c
tests_unit_gpu_driver_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_gpu_driver_t_LDADD = $(GPU_TEST_LIBS)
tests_unit_gpu_lease_t_SOURCES = tests/unit/gpu/lease.c
tests_unit_gpu_lease_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_gpu_lease_t_LDADD = $(GPU_TEST_LIBS)
tests_unit_gpu_turn_t_SOURCES = tests/unit/gpu/turn.c
tests_unit_gpu_turn_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_gpu_turn_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_gpu_turn_t_LDADD = $(GPU_TEST_LIBS)
tests_unit_gpu_headroom_t_SOURCES = tests/unit/gpu/headroom.c
tests_unit_gpu_headroom_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_gpu_headroom_t_LDADD = $(GPU_TEST_LIBS)
tests_unit_gpu_quota_t_SOURCES = tests/unit/gpu/quota.c
tests_unit_gpu_quota_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_gpu_quota_t_LDADD = $(GPU_TEST_LIBS)
tests_unit_gpu_inherited_mask_t_SOURCES = tests/unit/gpu/inherited_mask.c
tests_unit_gpu_inherited_mask_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_gpu_inherited_mask_t_LDADD = $(GPU_TEST_LIBS)
tests_unit_gpu_gpu_errors_t_SOURCES = tests/unit/gpu/gpu_errors.c
tests_unit_gpu_gpu_errors_t_LDADD = $(GPU_TEST_LIBS)

# A real agent with the doubles.
check_PROGRAMS += tests/unit/agent/gpus.t
tests_unit_agent_gpus_t_SOURCES = tests/unit/agent/gpus.c $(AGENT_TEST_DOUBLES)
tests_unit_agent_gpus_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_agent_gpus_t_LDADD = $(AGENT_TEST_LIBS)
