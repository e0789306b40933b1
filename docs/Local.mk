# docs: man pages, and what is read in the source tree.
dist_man_MANS += \
	docs/man/cellspan.1 \
	docs/man/cellspan-install.1 \
	docs/man/cellspan-kernel.1 \
	docs/man/cellspan-run.1
EXTRA_DIST += docs/building.md docs/images/jupyterlab.png
