# SPDX-License-Identifier: BSD-3-Clause
# Shared objects that stand for the driver's libraries in tests; README.md says what they present.
EXTRA_DIST += tests/doubles/README.md tests/doubles/control.h tests/doubles/control.c tests/doubles/nvml.c tests/doubles/cuda.c \
	tests/doubles/checkpoint.c

gpu_doubles = tests/doubles/libnvidia-ml.so tests/doubles/libnvidia-ml-old.so tests/doubles/libnvidia-ml-broken.so \
	tests/doubles/libcuda.so tests/doubles/libcuda-old.so
check_DATA += $(gpu_doubles)
CLEANFILES += $(gpu_doubles)

DOUBLE_COMPILE = $(AM_V_CCLD)$(MKDIR_P) tests/doubles && $(CC) -I$(top_srcdir) $(CPPFLAGS) -std=gnu11 $(WARN_CFLAGS) $(CFLAGS) \
	-fPIC -shared -fvisibility=hidden
nvml_double = $(srcdir)/tests/doubles/nvml.c $(srcdir)/tests/doubles/control.c
nvml_double_needs = $(nvml_double) $(srcdir)/tests/doubles/control.h $(srcdir)/worker/agent/gpu/nvml.h
tests/doubles/libnvidia-ml.so: $(nvml_double_needs)
	$(DOUBLE_COMPILE) -o $@ $(nvml_double)
tests/doubles/libnvidia-ml-old.so: $(nvml_double_needs)
	$(DOUBLE_COMPILE) -DDOUBLE_OLD -o $@ $(nvml_double)
tests/doubles/libnvidia-ml-broken.so: $(nvml_double_needs)
	$(DOUBLE_COMPILE) -DDOUBLE_BROKEN -o $@ $(nvml_double)
cuda_double = $(srcdir)/tests/doubles/cuda.c $(srcdir)/tests/doubles/checkpoint.c $(srcdir)/tests/doubles/control.c
tests/doubles/libcuda.so: $(cuda_double) $(srcdir)/tests/doubles/control.h
	$(DOUBLE_COMPILE) -o $@ $(cuda_double)
tests/doubles/libcuda-old.so: $(cuda_double) $(srcdir)/tests/doubles/control.h
	$(DOUBLE_COMPILE) -DDOUBLE_OLD -o $@ $(cuda_double)
