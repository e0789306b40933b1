# SPDX-License-Identifier: BSD-3-Clause
pkglibexec_PROGRAMS += cellspan-launch-local cellspan-launch-ssh cellspan-launch-slurm cellspan-launch-mpi
cellspan_launch_local_SOURCES = launchers/local.c
cellspan_launch_local_LDADD = launchers/liblaunch.a base/libbase.a $(ZMQ_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)

# What needs no loop, for tests as well.
noinst_LIBRARIES += launchers/liblaunch.a
launchers_liblaunch_a_SOURCES = \
	launchers/launcher.h launchers/launch_arguments.c \
	launchers/words.c \
	launchers/report.c \
	launchers/agent_script.h launchers/agent_script.c \
	launchers/container.h launchers/container.c \
	launchers/environment_modules.h launchers/environment_modules.c \
	launchers/payload.h launchers/payload.c \
	launchers/ssh/hosts.h launchers/ssh/hosts.c \
	launchers/ssh/cause.h launchers/ssh/cause.c \
	launchers/slurm/srun_options.c \
	launchers/slurm/step.h launchers/slurm/step.c \
	launchers/slurm/srun_output.h launchers/slurm/srun_output.c \
	launchers/mpi/mpirun.h launchers/mpi/mpirun.c \
	launchers/mpi/mpirun_options.c launchers/mpi/mpirun_hosts.c

cellspan_launch_ssh_SOURCES = launchers/login_limit.h launchers/login_limit.c launchers/relay_child.h launchers/relay_child.c \
	launchers/ssh/ssh_command.h launchers/ssh/ssh_command.c \
	launchers/ssh/relogin_child.h launchers/ssh/relogin_child.c \
	launchers/ssh/ssh_child.h launchers/ssh/ssh_child.c launchers/ssh/main.c
cellspan_launch_ssh_LDADD = launchers/liblaunch.a base/libbase.a $(ZMQ_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
cellspan_launch_slurm_SOURCES = \
	launchers/slurm/sbcast.h launchers/slurm/sbcast.c \
	launchers/slurm/delivery.h launchers/slurm/delivery.c \
	launchers/slurm/slurm_command.h launchers/slurm/slurm_command.c \
	launchers/slurm/relays.h launchers/slurm/relays.c launchers/relay_child.c launchers/login_limit.c \
	launchers/slurm/waiting_job.h launchers/slurm/waiting_job.c \
	launchers/slurm/job.h launchers/slurm/job.c \
	launchers/slurm/main.c
cellspan_launch_slurm_LDADD = launchers/liblaunch.a base/libbase.a $(ZMQ_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
cellspan_launch_mpi_SOURCES = launchers/mpi/main.c
cellspan_launch_mpi_LDADD = launchers/liblaunch.a base/libbase.a $(ZMQ_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
EXTRA_DIST += launchers/README.md

check_PROGRAMS += \
	tests/unit/launchers/words.t \
	tests/unit/launchers/container.t \
	tests/unit/launchers/environment_modules.t \
	tests/unit/launchers/mpi.t \
	tests/unit/launchers/ssh.t \
	tests/unit/launchers/payload.t \
	tests/unit/launchers/relay.t \
	tests/unit/launchers/relogin_child.t \
	tests/unit/launchers/login_limit.t \
	tests/unit/launchers/slurm.t \
	tests/unit/launchers/delivery.t
tests_unit_launchers_words_t_SOURCES = tests/unit/launchers/words.c
tests_unit_launchers_words_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_launchers_words_t_LDADD = launchers/liblaunch.a base/libbase.a
tests_unit_launchers_container_t_SOURCES = tests/unit/launchers/container.c
tests_unit_launchers_container_t_LDADD = launchers/liblaunch.a base/libbase.a
tests_unit_launchers_environment_modules_t_SOURCES = tests/unit/launchers/environment_modules.c
tests_unit_launchers_environment_modules_t_LDADD = launchers/liblaunch.a base/libbase.a
tests_unit_launchers_ssh_t_SOURCES = tests/unit/launchers/ssh.c
tests_unit_launchers_ssh_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_launchers_ssh_t_LDADD = launchers/liblaunch.a base/libbase.a
tests_unit_launchers_slurm_t_SOURCES = tests/unit/launchers/slurm.c
tests_unit_launchers_slurm_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_launchers_slurm_t_LDADD = launchers/liblaunch.a base/libbase.a
tests_unit_launchers_delivery_t_SOURCES = tests/unit/launchers/delivery.c \
	launchers/slurm/delivery.c launchers/slurm/sbcast.c launchers/slurm/slurm_command.c
tests_unit_launchers_delivery_t_LDADD = launchers/liblaunch.a base/libbase.a $(ZMQ_LIBS)
tests_unit_launchers_relay_t_SOURCES = tests/unit/launchers/relay.c tests/unit/launchers/turns.h launchers/relay_child.c launchers/login_limit.c
tests_unit_launchers_relay_t_LDADD = launchers/liblaunch.a base/libbase.a $(ZMQ_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
tests_unit_launchers_relogin_child_t_SOURCES = tests/unit/launchers/relogin_child.c tests/unit/launchers/turns.h launchers/ssh/relogin_child.c launchers/login_limit.c
tests_unit_launchers_relogin_child_t_LDADD = launchers/liblaunch.a base/libbase.a $(ZMQ_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
tests_unit_launchers_login_limit_t_SOURCES = tests/unit/launchers/login_limit.c tests/unit/launchers/turns.h \
	launchers/ssh/relogin_child.c launchers/relay_child.c launchers/login_limit.c
tests_unit_launchers_login_limit_t_LDADD = launchers/liblaunch.a base/libbase.a $(ZMQ_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
tests_unit_launchers_payload_t_SOURCES = tests/unit/launchers/payload.c
tests_unit_launchers_payload_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_launchers_payload_t_LDADD = launchers/liblaunch.a base/libbase.a
tests_unit_launchers_mpi_t_SOURCES = tests/unit/launchers/mpi.c
tests_unit_launchers_mpi_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_launchers_mpi_t_LDADD = launchers/liblaunch.a base/libbase.a
