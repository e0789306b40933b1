# The `cellspan` command.
bin_PROGRAMS += cellspan
noinst_LIBRARIES += kernel/command/libcommand.a

kernel_command_libcommand_a_SOURCES = \
	kernel/command/interpreter.h kernel/command/interpreter.c \
	kernel/command/kernelspec.h kernel/command/kernelspec.c \
	kernel/command/logo.h kernel/command/logo.c \
	kernel/command/option.h kernel/command/option.c \
	kernel/command/package.h kernel/command/package.c

cellspan_SOURCES = \
	kernel/command/client.h kernel/command/client.c \
	kernel/command/complete.h kernel/command/complete.c \
	kernel/command/install.h kernel/command/install.c \
	kernel/command/job.h kernel/command/job.c \
	kernel/command/line.h kernel/command/line.c \
	kernel/command/input.h kernel/command/input.c \
	kernel/command/run.h kernel/command/run.c \
	kernel/command/torchrun.h kernel/command/torchrun.c \
	kernel/command/show.h kernel/command/show.c \
	kernel/command/main.c
cellspan_LDADD = kernel/command/libcommand.a kernel/jupyter/libfront.a magics/libmagics.a protocol/libprotocol.a \
	base/libbase.a $(ZMQ_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)

# Where each of the shells looks for completions of what is installed in the same prefix.
bash_completiondir = $(datadir)/bash-completion/completions
zsh_completiondir = $(datadir)/zsh/site-functions
fish_completiondir = $(datadir)/fish/vendor_completions.d
dist_zsh_completion_DATA = kernel/command/shells/_cellspan
dist_fish_completion_DATA = kernel/command/shells/cellspan.fish
EXTRA_DIST += kernel/command/shells/cellspan.bash
install-data-hook:
	$(MKDIR_P) "$(DESTDIR)$(bash_completiondir)"
	$(INSTALL_DATA) $(srcdir)/kernel/command/shells/cellspan.bash "$(DESTDIR)$(bash_completiondir)/cellspan"
uninstall-hook:
	rm -f "$(DESTDIR)$(bash_completiondir)/cellspan"

# The logos' bytes as C wants them.
EXTRA_DIST += \
	kernel/command/logos/logo-32x32.png \
	kernel/command/logos/logo-64x64.png \
	kernel/command/logos/logo-svg.svg
LOGO_BYTES = kernel/command/logo-32x32.inc kernel/command/logo-64x64.inc kernel/command/logo-svg.inc
CLEANFILES += $(LOGO_BYTES)
logo_bytes = $(AM_V_GEN)$(MKDIR_P) kernel/command && od -An -v -tx1
logo_to_c = | $(SED) 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g' >$@-t && mv $@-t $@
kernel/command/logo-32x32.inc: kernel/command/logos/logo-32x32.png
	$(logo_bytes) $(srcdir)/kernel/command/logos/logo-32x32.png $(logo_to_c)
kernel/command/logo-64x64.inc: kernel/command/logos/logo-64x64.png
	$(logo_bytes) $(srcdir)/kernel/command/logos/logo-64x64.png $(logo_to_c)
kernel/command/logo-svg.inc: kernel/command/logos/logo-svg.svg
	$(logo_bytes) $(srcdir)/kernel/command/logos/logo-svg.svg $(logo_to_c)
kernel/command/logo.$(OBJEXT): $(LOGO_BYTES)

check_PROGRAMS += \
	tests/unit/kernel/command/kernelspec.t \
	tests/unit/kernel/command/line.t \
	tests/unit/kernel/command/option.t
tests_unit_kernel_command_kernelspec_t_SOURCES = tests/unit/kernel/command/kernelspec.c
tests_unit_kernel_command_kernelspec_t_LDADD = kernel/command/libcommand.a magics/libmagics.a base/libbase.a \
	$(JANSSON_LIBS)
tests_unit_kernel_command_line_t_SOURCES = tests/unit/kernel/command/line.c kernel/command/line.c
tests_unit_kernel_command_line_t_LDADD = base/libbase.a
tests_unit_kernel_command_option_t_SOURCES = tests/unit/kernel/command/option.c
tests_unit_kernel_command_option_t_LDADD = kernel/command/libcommand.a magics/libmagics.a base/libbase.a
tap_scripts += tests/unit/kernel/command/install.sh
EXTRA_DIST += tests/unit/kernel/command/install.sh
