# SPDX-License-Identifier: BSD-3-Clause
# The `cellspan` command.
bin_PROGRAMS += cellspan
noinst_LIBRARIES += cli/libcli.a

cli_libcli_a_SOURCES = \
	cli/interpreter.c \
	cli/kernelspec.h cli/kernelspec.c \
	cli/jupyter_path.h cli/jupyter_path.c \
	cli/logo.c

cellspan_SOURCES = \
	cli/client.h cli/client.c \
	cli/shell_complete.c \
	cli/private.h cli/install.c \
	cli/run_job.c \
	cli/kernels.h cli/kernels.c cli/owners.h cli/owners.c cli/kernel_question.c cli/announce.c cli/ps.c \
	cli/ask_at_once.h cli/ask_at_once.c cli/cards.h cli/cards.c cli/kernel_overview.c cli/ps_table.h cli/ps_table.c cli/ps_brief.h cli/ps_brief.c \
	cli/doctor.h cli/doctor.c cli/finding.c cli/doctor_machine.c cli/doctor_jupyter.c cli/doctor_python.c \
	cli/config.c \
	cli/option_line.c \
	cli/input.c \
	cli/run.c \
	cli/torchrun.c \
	cli/printer.c \
	cli/main.c
cellspan_LDADD = cli/libcli.a kernel/jupyter/libjupyter.a magics/libmagics.a protocol/libprotocol.a \
	base/libbase.a $(ZMQ_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)

# The service of JupyterHub: a folder that the hub's Python runs.
hub_servicedir = $(libdir)/cellspan/hub_service
dist_hub_service_DATA = \
	cli/hub_service/__init__.py \
	cli/hub_service/__main__.py \
	cli/hub_service/lister.py \
	cli/hub_service/metrics.py \
	cli/hub_service/page.py \
	cli/hub_service/rights.py \
	cli/hub_service/view.py \
	cli/hub_service/web.py

# Where each of the shells looks for completions of what is installed in the same prefix.
bash_completiondir = $(datadir)/bash-completion/completions
zsh_completiondir = $(datadir)/zsh/site-functions
fish_completiondir = $(datadir)/fish/vendor_completions.d
dist_zsh_completion_DATA = cli/shells/_cellspan
dist_fish_completion_DATA = cli/shells/cellspan.fish
EXTRA_DIST += cli/shells/cellspan.bash
install-data-hook:
	$(MKDIR_P) "$(DESTDIR)$(bash_completiondir)"
	$(INSTALL_DATA) $(srcdir)/cli/shells/cellspan.bash "$(DESTDIR)$(bash_completiondir)/cellspan"
uninstall-hook:
	rm -f "$(DESTDIR)$(bash_completiondir)/cellspan"

# The Jupyter of the same prefix knows the kernel at once. The kernelspec names the kernel from where it lies, so that the tree may
# move, unless the folders are in no usual places.
kernelspecdir = $(datadir)/jupyter/kernels/cellspan
dist_kernelspec_DATA = \
	cli/logos/logo-32x32.png \
	cli/logos/logo-64x64.png \
	cli/logos/logo-svg.svg
nodist_kernelspec_DATA = cli/kernel.json
EXTRA_DIST += cli/kernel.json.in
CLEANFILES += cli/kernel.json
cli/kernel.json: cli/kernel.json.in Makefile
	$(AM_V_GEN)$(MKDIR_P) cli && bin='$(bindir)' && \
	case '$(bindir) $(datadir)' in '$(prefix)/bin $(prefix)/share') bin='{resource_dir}/../../../../bin' ;; esac && \
	$(SED) $(if $(default_python),,-e '/"--python/d' -e '/"@python/d') -e "s,@bin@,$$bin," -e 's,@python@,$(default_python),' \
	  -e 's,@python_version@,$(PYTHON_VERSION),' $(srcdir)/cli/kernel.json.in >$@-t && mv $@-t $@

# The logos' bytes as C wants them.
LOGO_BYTES = cli/logo-32x32.inc cli/logo-64x64.inc cli/logo-svg.inc
CLEANFILES += $(LOGO_BYTES)
logo_bytes = $(AM_V_GEN)$(MKDIR_P) cli && od -An -v -tx1
logo_to_c = | $(SED) 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g' >$@-t && mv $@-t $@
cli/logo-32x32.inc: cli/logos/logo-32x32.png
	$(logo_bytes) $(srcdir)/cli/logos/logo-32x32.png $(logo_to_c)
cli/logo-64x64.inc: cli/logos/logo-64x64.png
	$(logo_bytes) $(srcdir)/cli/logos/logo-64x64.png $(logo_to_c)
cli/logo-svg.inc: cli/logos/logo-svg.svg
	$(logo_bytes) $(srcdir)/cli/logos/logo-svg.svg $(logo_to_c)
cli/logo.$(OBJEXT): $(LOGO_BYTES)

check_PROGRAMS += \
	tests/unit/cli/ask_at_once.t \
	tests/unit/cli/kernels.t \
	tests/unit/cli/kernelspec.t \
	tests/unit/cli/owners.t \
	tests/unit/cli/show.t \
	tests/unit/cli/option_line.t
tests_unit_cli_ask_at_once_t_SOURCES = tests/unit/cli/ask_at_once.c cli/ask_at_once.c
tests_unit_cli_ask_at_once_t_LDADD = base/libbase.a
tests_unit_cli_kernels_t_SOURCES = tests/unit/cli/kernels.c cli/kernels.c cli/owners.c
tests_unit_cli_kernels_t_LDADD = base/libbase.a $(JANSSON_LIBS)
tests_unit_cli_kernels_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_cli_kernelspec_t_SOURCES = tests/unit/cli/kernelspec.c
tests_unit_cli_kernelspec_t_LDADD = cli/libcli.a base/libbase.a $(JANSSON_LIBS)
tests_unit_cli_show_t_SOURCES = tests/unit/cli/show.c cli/client.c cli/kernel_question.c cli/printer.c
tests_unit_cli_show_t_LDADD = kernel/jupyter/libjupyter.a protocol/libprotocol.a base/libbase.a $(ZMQ_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
tests_unit_cli_owners_t_SOURCES = tests/unit/cli/owners.c cli/owners.c
tests_unit_cli_owners_t_LDADD = base/libbase.a $(JANSSON_LIBS)
tests_unit_cli_option_line_t_SOURCES = tests/unit/cli/option_line.c cli/option_line.c
tests_unit_cli_option_line_t_LDADD = base/libbase.a
tap_scripts += tests/unit/cli/install.sh tests/unit/cli/notice.sh
EXTRA_DIST += tests/unit/cli/install.sh tests/unit/cli/notice.sh
