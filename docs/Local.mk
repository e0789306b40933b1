# docs: man pages, and what is read in the source tree.
dist_man_MANS += \
	docs/man/cellspan.1 \
	docs/man/cellspan-doctor.1 \
	docs/man/cellspan-install.1 \
	docs/man/cellspan-kernel.1 \
	docs/man/cellspan-logs.1 \
	docs/man/cellspan-ps.1 \
	docs/man/cellspan-run.1 \
	docs/man/cellspan-stop.1 \
	docs/man/cellspan-uninstall.1
# kernel/ and worker/ have several folders; these files describe them.
EXTRA_DIST += kernel/README.md worker/README.md
dist_doc_DATA += docs/guide.md docs/machines.md docs/failures.md docs/limits.md docs/compare.md docs/names.md docs/frameworks.md docs/migrating.md docs/architecture.md docs/security.md docs/launchers.md docs/tutorial.md docs/troubleshooting.md
EXTRA_DIST += docs/building.md docs/images/jupyterlab.png docs/images/lab-two-hosts.png docs/images/two_hosts.py docs/images/lab-widgets.png docs/images/widgets.py docs/images/lab-panel.png docs/images/panel.py docs/images/lab-debugger.png docs/images/debugger.py
EXTRA_DIST += docs/site docs/mkdocs.yml docs/requirements.txt docs/reference.md docs/howto/ddp.md docs/howto/sweep.md docs/howto/resume.md docs/howto/second_machine.md docs/howto/unattended.md docs/howto/script.md
