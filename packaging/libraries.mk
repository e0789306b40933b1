# SPDX-License-Identifier: BSD-3-Clause
# The libraries that the wheel's programs contain, as static ones in $(PREFIX): packaging/wheel calls this in a build folder.
#
# Their own build files are not used: they need libtool, and run some thousand tests of a compiler and of a C library that are
# always the same here (clang, glibc 2.28). What those tests would find is written below.
#
# CC, CXX, AR: the compiler for the wheel's machines; ARCH: x86_64 or aarch64
# ZEROMQ, SODIUM, JANSSON, UTIL: folders with the sources

PREFIX = $(CURDIR)/libraries
FLAGS = -O2 -g0 -ffile-prefix-map=$(abspath $(ZEROMQ)/..)=. -fPIC -fvisibility=hidden -fstack-protector-strong -Wno-everything

libs = $(PREFIX)/lib/libzmq.a $(PREFIX)/lib/libsodium.a $(PREFIX)/lib/libjansson.a $(PREFIX)/lib/libuuid.a
all: zmq/all.o $(libs) $(PREFIX)/headers    # what takes longest begins first

# ---- libsodium: all files; what a processor may lack is asked for when the program runs ----
sodium = $(SODIUM)/src/libsodium
sodium_c = $(shell find $(sodium) -name '*.c')
sodium_S = $(if $(filter x86_64,$(ARCH)),$(shell find $(sodium) -name '*.S'))
sodium_has = TI_MODE INLINE_ASM C_VARARRAYS ATOMIC_OPS WEAK_SYMBOLS PTHREAD SYS_MMAN_H SYS_RANDOM_H MMAP MLOCK MADVISE MPROTECT \
	PAGE_PROTECTION POSIX_MEMALIGN NANOSLEEP GETPID EXPLICIT_BZERO GETRANDOM LINUX_COMPATIBLE_GETRANDOM ALLOCA ALLOCA_H
ifeq ($(ARCH),x86_64)
sodium_has += CPUID MMINTRIN_H EMMINTRIN_H PMMINTRIN_H TMMINTRIN_H SMMINTRIN_H AVXINTRIN_H AVX2INTRIN_H WMMINTRIN_H RDRAND AMD64_ASM \
	AVX_ASM
endif
sodium_flags = -std=gnu11 -DCONFIGURED=1 -DNATIVE_LITTLE_ENDIAN=1 -D_GNU_SOURCE $(patsubst %,-DHAVE_%=1,$(sodium_has)) -DSODIUM_STATIC \
	-I$(PREFIX)/include/sodium -I$(sodium)/include/sodium -I$(sodium)/include
# The files for one kind of processor have it in their names.
sodium_for = $(if $(findstring avx2,$1),-mavx2,$(if $(findstring ssse3,$1),-mssse3,$(if $(findstring sse41,$1),-msse4.1,$(if \
	$(findstring aesni,$1),-maes -mpclmul -mavx,$(if $(findstring rdrand,$1)$(findstring internal,$1),-mrdrnd)))))
sodium_o = $(patsubst $(sodium)/%,sodium/%.o,$(sodium_c) $(sodium_S))

sodium/%.o: $(sodium)/% $(PREFIX)/headers
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(sodium_flags) $(if $(filter x86_64,$(ARCH)),$(call sodium_for,$*)) -c -o $@ $<

# ---- libzmq: its sockets with CURVE; no plug-ins (PGM, NORM, GSSAPI, WebSockets), no drafts ----
zmq_has = ZMQ_USE_CV_IMPL_STL11 ZMQ_IOTHREAD_POLLER_USE_EPOLL ZMQ_IOTHREAD_POLLER_USE_EPOLL_CLOEXEC ZMQ_HAVE_PPOLL ZMQ_POLL_BASED_ON_POLL \
	HAVE_POSIX_MEMALIGN HAVE_FORK HAVE_CLOCK_GETTIME HAVE_MKDTEMP ZMQ_HAVE_UIO ZMQ_HAVE_NOEXCEPT ZMQ_HAVE_EVENTFD \
	ZMQ_HAVE_EVENTFD_CLOEXEC ZMQ_HAVE_IFADDRS ZMQ_HAVE_SO_BINDTODEVICE ZMQ_HAVE_SO_PEERCRED ZMQ_HAVE_BUSY_POLL ZMQ_HAVE_O_CLOEXEC \
	ZMQ_HAVE_SOCK_CLOEXEC ZMQ_HAVE_SO_KEEPALIVE ZMQ_HAVE_SO_PRIORITY ZMQ_HAVE_TCP_KEEPCNT ZMQ_HAVE_TCP_KEEPIDLE \
	ZMQ_HAVE_TCP_KEEPINTVL ZMQ_HAVE_PTHREAD_SETNAME_2 ZMQ_HAVE_PTHREAD_SET_AFFINITY HAVE_ACCEPT4 HAVE_STRNLEN ZMQ_HAVE_IPC \
	ZMQ_HAVE_STRUCT_SOCKADDR_UN ZMQ_HAVE_CURVE ZMQ_USE_LIBSODIUM SODIUM_STATIC HAVE_IF_NAMETOINDEX ZMQ_HAVE_LINUX
zmq_cpp = $(filter-out $(ZEROMQ)/src/ws%,$(sort $(wildcard $(ZEROMQ)/src/*.cpp)))

zmq/platform.hpp: $(MAKEFILE_LIST)
	@mkdir -p $(@D)
	{ printf '#define %s 1\n' $(zmq_has); echo '#define ZMQ_CACHELINE_SIZE 64'; } >$@
# All files are compiled as one: most of what each takes are the headers of C++, which are the same.
zmq/all.cpp: $(zmq_cpp) $(MAKEFILE_LIST)
	@mkdir -p $(@D)
	printf '#include "%s"\n' $(notdir $(zmq_cpp)) >$@
zmq/all.o: zmq/all.cpp zmq/platform.hpp $(PREFIX)/headers
	$(CXX) $(FLAGS) -std=c++11 -D_GNU_SOURCE -DZMQ_STATIC -D_REENTRANT -DZMQ_CUSTOM_PLATFORM_HPP -Izmq -I$(ZEROMQ)/src \
	  -I$(ZEROMQ)/include -I$(PREFIX)/include -c -o $@ $<

# ---- jansson ----
jansson_has = STDINT_H UNISTD_H FCNTL_H SCHED_H SYS_STAT_H SYS_TIME_H SYS_TYPES_H CLOSE GETPID GETTIMEOFDAY OPEN READ SCHED_YIELD \
	ATOMIC_BUILTINS SYNC_BUILTINS
jansson_o = $(patsubst $(JANSSON)/src/%,jansson/%.o,$(wildcard $(JANSSON)/src/*.c))

jansson/jansson_private_config.h: $(MAKEFILE_LIST)
	@mkdir -p $(@D)
	{ printf '#define HAVE_%s 1\n' $(jansson_has); echo '#define USE_URANDOM 1'; echo '#define INITIAL_HASHTABLE_ORDER 3'; } >$@
jansson/%.o: $(JANSSON)/src/% jansson/jansson_private_config.h $(PREFIX)/headers
	$(CC) $(FLAGS) -std=gnu11 -DHAVE_CONFIG_H -Ijansson -I$(PREFIX)/include -I$(JANSSON)/src -c -o $@ $<

# ---- libuuid, of util-linux: without uuidd, for only random ids are made ----
uuid_has = ERR ERRX ERR_H EXPLICIT_BZERO GETRANDOM JRAND48 LANGINFO_H LIBPTHREAD LOCALE_H LOFF_T NANOSLEEP NETINET_IN_H NET_IF_H \
	PROGRAM_INVOCATION_SHORT_NAME REALLOCARRAY SENDFILE SRANDOM STDLIB_H STRUCT_STAT_ST_MTIM_TV_NSEC SYS_FILE_H SYS_IOCTL_H \
	SYS_SENDFILE_H SYS_SOCKET_H SYS_SYSCALL_H SYS_SYSMACROS_H SYS_TIME_H SYS_UN_H TLS UNISTD_H USLEEP WARN WARNX DIRFD
uuid_c = $(patsubst %,libuuid/src/%.c,clear compare copy gen_uuid isnull pack parse unpack unparse uuid_time predefined) \
	lib/randutils.c lib/md5.c lib/sha1.c
uuid_o = $(patsubst %,uuid/%.o,$(uuid_c))

uuid/config.h: $(MAKEFILE_LIST)
	@mkdir -p $(@D)
	{ printf '#define HAVE_%s 1\n' $(uuid_has); echo '#define HAVE_DECL_DIRFD 1'; echo '#define _PATH_LOCALSTATEDIR "/var"'; } >$@
uuid/%.o: $(UTIL)/% uuid/config.h
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -std=gnu11 -D_GNU_SOURCE -include uuid/config.h -I$(UTIL)/include -I$(UTIL)/libuuid/src -c -o $@ $<

# ---- what configure finds ----
$(PREFIX)/lib/libzmq.a: zmq/all.o
$(PREFIX)/lib/libsodium.a: $(sodium_o)
$(PREFIX)/lib/libjansson.a: $(jansson_o)
$(PREFIX)/lib/libuuid.a: $(uuid_o)
$(libs):
	@mkdir -p $(@D)
	rm -f $@
	$(AR) rcs $@ $^

zmq_version = $(shell sed -n 's/^.define ZMQ_VERSION_[A-Z]* \([0-9]*\)$$/\1/p' $(ZEROMQ)/include/zmq.h | paste -sd.)
sodium_version = $(shell sed -n 's/^AC_INIT.\[libsodium\], *\[\([0-9.]*\)\].*/\1/p' $(SODIUM)/configure.ac)
sodium_abi = $(shell sed -n 's/^SODIUM_LIBRARY_VERSION_$1=\([0-9]*\)$$/\1/p' $(SODIUM)/configure.ac)
jansson_version = $(shell sed -n 's/^.define JANSSON_VERSION  *"\([^"]*\)".*/\1/p' $(JANSSON)/src/jansson.h)
uuid_version = $(shell cat $(UTIL)/.tarball-version)
# pc NAME,VERSION,LIBS
pc = printf 'Name: $1\nDescription: static\nVersion: $2\nLibs: -L$(PREFIX)/lib $3\nCflags: -I$(PREFIX)/include -DZMQ_STATIC -DSODIUM_STATIC\n' \
	>$(PREFIX)/lib/pkgconfig/$1.pc

$(PREFIX)/headers: $(MAKEFILE_LIST)
	mkdir -p $(PREFIX)/include/uuid $(PREFIX)/include/sodium $(PREFIX)/lib/pkgconfig
	cp $(ZEROMQ)/include/zmq.h $(ZEROMQ)/include/zmq_utils.h $(PREFIX)/include
	cp $(UTIL)/libuuid/src/uuid.h $(PREFIX)/include/uuid
	cp $(JANSSON)/src/jansson.h $(PREFIX)/include
	sed -e 's/@json_inline@/inline/; s/@json_have_[a-z_]*@/1/' $(JANSSON)/src/jansson_config.h.in >$(PREFIX)/include/jansson_config.h
	cp -r $(sodium)/include/sodium.h $(sodium)/include/sodium $(PREFIX)/include
	sed -e 's/@VERSION@/$(sodium_version)/; s/@SODIUM_LIBRARY_VERSION_MAJOR@/$(call sodium_abi,MAJOR)/' \
	  -e 's/@SODIUM_LIBRARY_VERSION_MINOR@/$(call sodium_abi,MINOR)/; s/@SODIUM_LIBRARY_MINIMAL_DEF@//' \
	  $(sodium)/include/sodium/version.h.in >$(PREFIX)/include/sodium/version.h
	$(call pc,libzmq,$(zmq_version),-lzmq -lsodium -lc++ -lpthread)
	$(call pc,libsodium,$(sodium_version),-lsodium -lpthread)
	$(call pc,jansson,$(jansson_version),-ljansson)
	$(call pc,uuid,$(uuid_version),-luuid)
	touch $@

.PHONY: all
.DELETE_ON_ERROR:
