pkglibexec_PROGRAMS += cellspan-launch-local
cellspan_launch_local_SOURCES = launchers/local.c
cellspan_launch_local_LDADD = base/libbase.a $(ZMQ_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
EXTRA_DIST += launchers/README.md
