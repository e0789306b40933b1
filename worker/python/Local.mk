# SPDX-License-Identifier: BSD-3-Clause
# worker/python: the package, installed as it is.
dist_cellspan_py_DATA = \
	worker/python/cellspan/__init__.py \
	worker/python/cellspan/_api.py \
	worker/python/cellspan/_async_call.py \
	worker/python/cellspan/_call_options.py \
	worker/python/cellspan/_client.py \
	worker/python/cellspan/_cluster_place.py \
	worker/python/cellspan/_distributed.py \
	worker/python/cellspan/_dropin_api.py \
	worker/python/cellspan/_futures.py \
	worker/python/cellspan/_jobs.py \
	worker/python/cellspan/_map.py \
	worker/python/cellspan/_option_errors.py \
	worker/python/cellspan/_scatter.py \
	worker/python/cellspan/_steps.py \
	worker/python/cellspan/_world.py \
	worker/python/cellspan/py.typed

cellspan_py_basedir = $(cellspan_pydir)/_base
dist_cellspan_py_base_DATA = \
	worker/python/cellspan/_base/__init__.py \
	worker/python/cellspan/_base/errors.py \
	worker/python/cellspan/_base/filesystems.py \
	worker/python/cellspan/_base/imports.py \
	worker/python/cellspan/_base/modules.py \
	worker/python/cellspan/_base/options.py \
	worker/python/cellspan/_base/own_code.py \
	worker/python/cellspan/_base/public.py \
	worker/python/cellspan/_base/shadows.py \
	worker/python/cellspan/_base/spark_tasks.py \
	worker/python/cellspan/_base/threads.py \
	worker/python/cellspan/_base/time_limit.py \
	worker/python/cellspan/_base/unwritten.py \
	worker/python/cellspan/_base/versions.py \
	worker/python/cellspan/_base/whole.py

cellspan_py_codedir = $(cellspan_pydir)/_code
dist_cellspan_py_code_DATA = \
	worker/python/cellspan/_code/__init__.py \
	worker/python/cellspan/_code/changes.py \
	worker/python/cellspan/_code/children.py \
	worker/python/cellspan/_code/code_home.py \
	worker/python/cellspan/_code/code_rank.py \
	worker/python/cellspan/_code/distributions.py \
	worker/python/cellspan/_code/editables.py \
	worker/python/cellspan/_code/entries.py \
	worker/python/cellspan/_code/finders.py \
	worker/python/cellspan/_code/ignores.py \
	worker/python/cellspan/_code/in_place.py \
	worker/python/cellspan/_code/listing.py \
	worker/python/cellspan/_code/manifest.py \
	worker/python/cellspan/_code/package_versions.py \
	worker/python/cellspan/_code/room.py \
	worker/python/cellspan/_code/tree.py

cellspan_py_capturedir = $(cellspan_pydir)/_capture
dist_cellspan_py_capture_DATA = \
	worker/python/cellspan/_capture/__init__.py \
	worker/python/cellspan/_capture/arrays.py \
	worker/python/cellspan/_capture/assigned.py \
	worker/python/cellspan/_capture/bindings.py \
	worker/python/cellspan/_capture/blame.py \
	worker/python/cellspan/_capture/by_name.py \
	worker/python/cellspan/_capture/by_type.py \
	worker/python/cellspan/_capture/caches.py \
	worker/python/cellspan/_capture/capture.py \
	worker/python/cellspan/_capture/class_states.py \
	worker/python/cellspan/_capture/class_versions.py \
	worker/python/cellspan/_capture/memory_users.py \
	worker/python/cellspan/_capture/device_copies.py \
	worker/python/cellspan/_capture/device_digest.py \
	worker/python/cellspan/_capture/enums.py \
	worker/python/cellspan/_capture/fingerprints.py \
	worker/python/cellspan/_capture/foreign.py \
	worker/python/cellspan/_capture/lent.py \
	worker/python/cellspan/_capture/mangling.py \
	worker/python/cellspan/_capture/mappings.py \
	worker/python/cellspan/_capture/origins.py \
	worker/python/cellspan/_capture/own_names.py \
	worker/python/cellspan/_capture/vars_bundle.py \
	worker/python/cellspan/_capture/call_buffers.py \
	worker/python/cellspan/_capture/only_read.py \
	worker/python/cellspan/_capture/reads.py \
	worker/python/cellspan/_capture/rebuild.py \
	worker/python/cellspan/_capture/reducers.py \
	worker/python/cellspan/_capture/rough_reads.py \
	worker/python/cellspan/_capture/scopes.py \
	worker/python/cellspan/_capture/reloaded.py \
	worker/python/cellspan/_capture/resizing.py \
	worker/python/cellspan/_capture/sharing.py \
	worker/python/cellspan/_capture/sources.py \
	worker/python/cellspan/_capture/tensors.py \
	worker/python/cellspan/_capture/rank_definitions.py \
	worker/python/cellspan/_capture/unloaded.py \
	worker/python/cellspan/_capture/unseen.py \
	worker/python/cellspan/_capture/worlds.py

# Modules with the names of other packages: cellspan.torch, ...
cellspan_py_dropindir = $(cellspan_pydir)/_dropin
dist_cellspan_py_dropin_DATA = \
	worker/python/cellspan/_dropin/tensorflow.py

cellspan_py_torchdir = $(cellspan_pydir)/_dropin/torch
dist_cellspan_py_torch_DATA = \
	worker/python/cellspan/_dropin/torch/__init__.py \
	worker/python/cellspan/_dropin/torch/_dataframes.py \
	worker/python/cellspan/_dropin/torch/_partitions.py

cellspan_py_horovoddir = $(cellspan_pydir)/_dropin/horovod
dist_cellspan_py_horovod_DATA = \
	worker/python/cellspan/_dropin/horovod/__init__.py \
	worker/python/cellspan/_dropin/horovod/_autograd.py \
	worker/python/cellspan/_dropin/horovod/_batchnorm.py \
	worker/python/cellspan/_dropin/horovod/_compression.py \
	worker/python/cellspan/_dropin/horovod/_functions.py \
	worker/python/cellspan/_dropin/horovod/_install.py \
	worker/python/cellspan/_dropin/horovod/_lightning.py \
	worker/python/cellspan/_dropin/horovod/_line.py \
	worker/python/cellspan/_dropin/horovod/_ops.py \
	worker/python/cellspan/_dropin/horovod/_optimizer.py \
	worker/python/cellspan/_dropin/horovod/_ranks.py \
	worker/python/cellspan/_dropin/horovod/_refused.py \
	worker/python/cellspan/_dropin/horovod/_runner.py \
	worker/python/cellspan/_dropin/horovod/_state.py \
	worker/python/cellspan/_dropin/horovod/_turns.py \
	worker/python/cellspan/_dropin/horovod/_works.py \
	worker/python/cellspan/_dropin/horovod/torch.py

cellspan_py_pxdir = $(cellspan_pydir)/_dropin/px
dist_cellspan_py_px_DATA = \
	worker/python/cellspan/_dropin/px/__init__.py \
	worker/python/cellspan/_dropin/px/_magics.py \
	worker/python/cellspan/_dropin/px/_missing.py \
	worker/python/cellspan/_dropin/px/_result.py \
	worker/python/cellspan/_dropin/px/_views.py

cellspan_py_maggydir = $(cellspan_pydir)/_dropin/maggy
dist_cellspan_py_maggy_DATA = \
	worker/python/cellspan/_dropin/maggy/__init__.py \
	worker/python/cellspan/_dropin/maggy/_loaders.py \
	worker/python/cellspan/_dropin/maggy/_modules.py \
	worker/python/cellspan/_dropin/maggy/_optimizers.py \
	worker/python/cellspan/_dropin/maggy/_rank.py \
	worker/python/cellspan/_dropin/maggy/_reporter.py \
	worker/python/cellspan/_dropin/maggy/_values.py \
	worker/python/cellspan/_dropin/maggy/callbacks.py \
	worker/python/cellspan/_dropin/maggy/config.py \
	worker/python/cellspan/_dropin/maggy/experiment_config.py

cellspan_py_maggy_coredir = $(cellspan_pydir)/_dropin/maggy/core
dist_cellspan_py_maggy_core_DATA = \
	worker/python/cellspan/_dropin/maggy/core/__init__.py \
	worker/python/cellspan/_dropin/maggy/core/exceptions.py

cellspan_py_maggy_experimentdir = $(cellspan_pydir)/_dropin/maggy/experiment
dist_cellspan_py_maggy_experiment_DATA = \
	worker/python/cellspan/_dropin/maggy/experiment/__init__.py \
	worker/python/cellspan/_dropin/maggy/experiment/experiment.py

cellspan_py_installdir = $(cellspan_pydir)/_install
dist_cellspan_py_install_DATA = \
	worker/python/cellspan/_install/__init__.py \
	worker/python/cellspan/_install/find_agent.py \
	worker/python/cellspan/_install/offer.py \
	worker/python/cellspan/_install/payload.py \
	worker/python/cellspan/_install/unpack.py

cellspan_py_launchdir = $(cellspan_pydir)/_launch
dist_cellspan_py_launch_DATA = \
	worker/python/cellspan/_launch/__init__.py \
	worker/python/cellspan/_launch/__main__.py \
	worker/python/cellspan/_launch/client_log.py \
	worker/python/cellspan/_launch/engine_reports.py \
	worker/python/cellspan/_launch/launcher.py \
	worker/python/cellspan/_launch/ray.py \
	worker/python/cellspan/_launch/spark.py \
	worker/python/cellspan/_launch/spark_connect.py \
	worker/python/cellspan/_launch/spark_home.py \
	worker/python/cellspan/_launch/spark_notebook.py \
	worker/python/cellspan/_launch/spark_slots.py \
	worker/python/cellspan/_launch/spark_task.py

cellspan_py_jupyterdir = $(cellspan_pydir)/_jupyter
dist_cellspan_py_jupyter_DATA = \
	worker/python/cellspan/_jupyter/__init__.py \
	worker/python/cellspan/_jupyter/clientmagics.py \
	worker/python/cellspan/_jupyter/clients.py \
	worker/python/cellspan/_jupyter/comms.py \
	worker/python/cellspan/_jupyter/fake_ipykernel.py \
	worker/python/cellspan/_jupyter/fake_zmqshell.py \
	worker/python/cellspan/_jupyter/history.py \
	worker/python/cellspan/_jupyter/kernelmagics.py \
	worker/python/cellspan/_jupyter/pagemagics.py \
	worker/python/cellspan/_jupyter/post_mortem.py \
	worker/python/cellspan/_jupyter/prepare_jedi.py \
	worker/python/cellspan/_jupyter/rank_output.py \
	worker/python/cellspan/_jupyter/real_ipykernel.py \
	worker/python/cellspan/_jupyter/requests.py \
	worker/python/cellspan/_jupyter/scattermagics.py \
	worker/python/cellspan/_jupyter/widgets.py

cellspan_py_workerdir = $(cellspan_pydir)/_worker
dist_cellspan_py_worker_DATA = \
	worker/python/cellspan/_worker/__init__.py \
	worker/python/cellspan/_worker/__main__.py \
	worker/python/cellspan/_worker/aborts.py \
	worker/python/cellspan/_worker/accelerate_state.py \
	worker/python/cellspan/_worker/after_fork.py \
	worker/python/cellspan/_worker/begin.py \
	worker/python/cellspan/_worker/broadcast.py \
	worker/python/cellspan/_worker/check.py \
	worker/python/cellspan/_worker/code_answers.py \
	worker/python/cellspan/_worker/commands.py \
	worker/python/cellspan/_worker/cpp_builds.py \
	worker/python/cellspan/_worker/debugger.py \
	worker/python/cellspan/_worker/environment.py \
	worker/python/cellspan/_worker/exchange.py \
	worker/python/cellspan/_worker/execution.py \
	worker/python/cellspan/_worker/first_traceback.py \
	worker/python/cellspan/_worker/follow.py \
	worker/python/cellspan/_worker/gpu_placement.py \
	worker/python/cellspan/_worker/gpus.py \
	worker/python/cellspan/_worker/groups.py \
	worker/python/cellspan/_worker/home.py \
	worker/python/cellspan/_worker/home_calls.py \
	worker/python/cellspan/_worker/host_facts.py \
	worker/python/cellspan/_worker/idle_questions.py \
	worker/python/cellspan/_worker/interrupts.py \
	worker/python/cellspan/_worker/late_settings.py \
	worker/python/cellspan/_worker/library_fixes.py \
	worker/python/cellspan/_worker/loops.py \
	worker/python/cellspan/_worker/map_rank.py \
	worker/python/cellspan/_worker/message.py \
	worker/python/cellspan/_worker/mlflow_run.py \
	worker/python/cellspan/_worker/module_paths.py \
	worker/python/cellspan/_worker/mpi.py \
	worker/python/cellspan/_worker/pmi_server.py \
	worker/python/cellspan/_worker/publish.py \
	worker/python/cellspan/_worker/pxrank.py \
	worker/python/cellspan/_worker/pydevd.py \
	worker/python/cellspan/_worker/rank.py \
	worker/python/cellspan/_worker/rank_calls.py \
	worker/python/cellspan/_worker/reloads.py \
	worker/python/cellspan/_worker/remote.py \
	worker/python/cellspan/_worker/root_logging.py \
	worker/python/cellspan/_worker/scripts.py \
	worker/python/cellspan/_worker/seeds.py \
	worker/python/cellspan/_worker/shell.py \
	worker/python/cellspan/_worker/sigterm.py \
	worker/python/cellspan/_worker/spark_connect_jobs.py \
	worker/python/cellspan/_worker/spark_jobs.py \
	worker/python/cellspan/_worker/spark_session.py \
	worker/python/cellspan/_worker/spawned.py \
	worker/python/cellspan/_worker/stacks.py \
	worker/python/cellspan/_worker/startup.py \
	worker/python/cellspan/_worker/step_meeting.py \
	worker/python/cellspan/_worker/store_waits.py \
	worker/python/cellspan/_worker/streams.py \
	worker/python/cellspan/_worker/subshell_state.py \
	worker/python/cellspan/_worker/subshells.py \
	worker/python/cellspan/_worker/torch_errors.py \
	worker/python/cellspan/_worker/torch_rendezvous.py \
	worker/python/cellspan/_worker/torchenv.py \
	worker/python/cellspan/_worker/tracebacks.py \
	worker/python/cellspan/_worker/wandb_service.py \
	worker/python/cellspan/_worker/wanted.py \
	worker/python/cellspan/_worker/worker.py \
	worker/python/cellspan/_worker/world_env.py \
	worker/python/cellspan/_worker/zygote.py

# The types of the interface, where type checkers look for those of a package (PEP 561). The source of each module that users import is
# below _dropin/, where pyright does not look: it warns of a module without a source, but not of one that is a folder.
cellspan_stubsdir = $(cellspan_pydir)-stubs
dist_cellspan_stubs_DATA = \
	worker/python/cellspan-stubs/__init__.pyi \
	worker/python/cellspan-stubs/_api.pyi \
	worker/python/cellspan-stubs/_distributed.pyi \
	worker/python/cellspan-stubs/_map.pyi \
	worker/python/cellspan-stubs/_steps.pyi \
	worker/python/cellspan-stubs/_world.pyi \
	worker/python/cellspan-stubs/py.typed

cellspan_stubs_workerdir = $(cellspan_stubsdir)/_worker
dist_cellspan_stubs_worker_DATA = \
	worker/python/cellspan-stubs/_worker/remote.pyi

cellspan_stubs_horovoddir = $(cellspan_stubsdir)/horovod
dist_cellspan_stubs_horovod_DATA = \
	worker/python/cellspan-stubs/horovod/__init__.pyi \
	worker/python/cellspan-stubs/horovod/_compression.pyi \
	worker/python/cellspan-stubs/horovod/_ops.pyi

cellspan_stubs_horovod_torchdir = $(cellspan_stubsdir)/horovod/torch
dist_cellspan_stubs_horovod_torch_DATA = \
	worker/python/cellspan-stubs/horovod/torch/__init__.pyi

cellspan_stubs_maggydir = $(cellspan_stubsdir)/maggy
dist_cellspan_stubs_maggy_DATA = \
	worker/python/cellspan-stubs/maggy/__init__.pyi

cellspan_stubs_maggy_callbacksdir = $(cellspan_stubsdir)/maggy/callbacks
dist_cellspan_stubs_maggy_callbacks_DATA = \
	worker/python/cellspan-stubs/maggy/callbacks/__init__.pyi

cellspan_stubs_maggy_configdir = $(cellspan_stubsdir)/maggy/config
dist_cellspan_stubs_maggy_config_DATA = \
	worker/python/cellspan-stubs/maggy/config/__init__.pyi

cellspan_stubs_maggy_coredir = $(cellspan_stubsdir)/maggy/core
dist_cellspan_stubs_maggy_core_DATA = \
	worker/python/cellspan-stubs/maggy/core/__init__.pyi

cellspan_stubs_maggy_core_exceptionsdir = $(cellspan_stubsdir)/maggy/core/exceptions
dist_cellspan_stubs_maggy_core_exceptions_DATA = \
	worker/python/cellspan-stubs/maggy/core/exceptions/__init__.pyi

cellspan_stubs_maggy_experimentdir = $(cellspan_stubsdir)/maggy/experiment
dist_cellspan_stubs_maggy_experiment_DATA = \
	worker/python/cellspan-stubs/maggy/experiment/__init__.pyi

cellspan_stubs_maggy_experiment_experimentdir = $(cellspan_stubsdir)/maggy/experiment/experiment
dist_cellspan_stubs_maggy_experiment_experiment_DATA = \
	worker/python/cellspan-stubs/maggy/experiment/experiment/__init__.pyi

cellspan_stubs_maggy_experimentconfigdir = $(cellspan_stubsdir)/maggy/experiment_config
dist_cellspan_stubs_maggy_experimentconfig_DATA = \
	worker/python/cellspan-stubs/maggy/experiment_config/__init__.pyi

cellspan_stubs_pxdir = $(cellspan_stubsdir)/px
dist_cellspan_stubs_px_DATA = \
	worker/python/cellspan-stubs/px/__init__.pyi \
	worker/python/cellspan-stubs/px/_result.pyi \
	worker/python/cellspan-stubs/px/_views.pyi

cellspan_stubs_tensorflowdir = $(cellspan_stubsdir)/tensorflow
dist_cellspan_stubs_tensorflow_DATA = \
	worker/python/cellspan-stubs/tensorflow/__init__.pyi

cellspan_stubs_torchdir = $(cellspan_stubsdir)/torch
dist_cellspan_stubs_torch_DATA = \
	worker/python/cellspan-stubs/torch/__init__.pyi

# Without bytecode, a kernel that may not write into its folder would compile the whole package each time it starts. BYTECODE=no
# stores none, for packages: whoever installs those makes it.
BYTECODE = yes
install-data-hook: install-bytecode
install-bytecode:
	@test "$(BYTECODE)" = no || { set -- -q; test -z "$(DESTDIR)" || set -- -q -s "$(DESTDIR)" -p /; \
	  echo " $(PYTHON) -I -m compileall $$* '$(DESTDIR)$(cellspan_pydir)'"; \
	  $(PYTHON) -I -m compileall "$$@" "$(DESTDIR)$(cellspan_pydir)" || echo "$(PYTHON) made no bytecode: each kernel starts later" >&2; }
uninstall-hook: uninstall-bytecode
uninstall-bytecode:
	test ! -d "$(DESTDIR)$(cellspan_pydir)" || \
	  find "$(DESTDIR)$(cellspan_pydir)" -name __pycache__ -type d -prune -exec rm -r {} +
.PHONY: install-bytecode uninstall-bytecode
