# SPDX-License-Identifier: BSD-3-Clause
# docs: man pages, and what is read in the source tree.
dist_man_MANS += \
	docs/man/cellspan.1 \
	docs/man/cellspan-config.1 \
	docs/man/cellspan-doctor.1 \
	docs/man/cellspan-install.1 \
	docs/man/cellspan-kernel.1 \
	docs/man/cellspan-logs.1 \
	docs/man/cellspan-ps.1 \
	docs/man/cellspan-run.1 \
	docs/man/cellspan-notice.1 docs/man/cellspan-stop.1 \
	docs/man/cellspan-uninstall.1
# kernel/ and worker/ have several folders; these files describe them.
EXTRA_DIST += kernel/README.md worker/README.md
# The pages keep their folders when they are installed, so that their links lead somewhere there, too.
nobase_dist_doc_DATA += README.md LICENSE CHANGELOG.md CONTRIBUTING.md SECURITY.md CITATION.cff protocol/README.md \
	docs/architecture.md docs/building.md docs/code.md docs/compare.md docs/failures.md docs/frameworks.md docs/guide.md \
	docs/launchers.md docs/limits.md docs/machines.md docs/migrating.md docs/names.md docs/reference.md docs/security.md docs/settings.md \
	docs/troubleshooting.md docs/tutorial.md docs/variables.md \
	docs/howto/ddp.md docs/howto/resume.md docs/howto/script.md docs/howto/second_machine.md docs/howto/sweep.md \
	docs/howto/unattended.md docs/howto/jupyterhub.md docs/howto/jupyterhub_slurm.md \
	docs/images/jupyterlab.png docs/images/lab-debugger.png docs/images/lab-panel.png docs/images/lab-two-hosts.png \
	docs/images/lab-widgets.png \
	examples/horovod_digits.ipynb examples/lightning_delta_mlflow.ipynb examples/maggy_scalar_field.ipynb \
	examples/torch_distributor.ipynb examples/torch_distributor_spark.ipynb \
	examples/jupyterhub/README.md \
	examples/jupyterhub/one_machine/cellspan.toml \
	examples/jupyterhub/one_machine/jupyterhub_config.py \
	examples/jupyterhub/one_machine/gpu_page.py \
	examples/jupyterhub/one_machine/private_network.py \
	examples/jupyterhub/slurm/cellspan.toml \
	examples/jupyterhub/slurm/jupyterhub_config.py
EXTRA_DIST += docs/images/two_hosts.py docs/images/widgets.py docs/images/panel.py docs/images/debugger.py
EXTRA_DIST += docs/site docs/mkdocs.yml docs/requirements.txt
