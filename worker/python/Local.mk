# worker/python: the package, installed as it is.
dist_cellspan_py_DATA = \
	worker/python/cellspan/__init__.py \
	worker/python/cellspan/_worker.py \
	worker/python/cellspan/aborts.py \
	worker/python/cellspan/api.py \
	worker/python/cellspan/capture.py \
	worker/python/cellspan/cast.py \
	worker/python/cellspan/check.py \
	worker/python/cellspan/comms.py \
	worker/python/cellspan/environment.py \
	worker/python/cellspan/errors.py \
	worker/python/cellspan/gpus.py \
	worker/python/cellspan/history.py \
	worker/python/cellspan/home.py \
	worker/python/cellspan/imports.py \
	worker/python/cellspan/interrupts.py \
	worker/python/cellspan/landing.py \
	worker/python/cellspan/loops.py \
	worker/python/cellspan/magics.py \
	worker/python/cellspan/parcel.py \
	worker/python/cellspan/publish.py \
	worker/python/cellspan/_rank.py \
	worker/python/cellspan/reads.py \
	worker/python/cellspan/rebuild.py \
	worker/python/cellspan/reducers.py \
	worker/python/cellspan/requests.py \
	worker/python/cellspan/scopes.py \
	worker/python/cellspan/shell.py \
	worker/python/cellspan/sources.py \
	worker/python/cellspan/standin.py \
	worker/python/cellspan/streams.py \
	worker/python/cellspan/tensors.py \
	worker/python/cellspan/torchenv.py \
	worker/python/cellspan/where.py \
	worker/python/cellspan/worker.py \
	worker/python/cellspan/world.py \
	worker/python/cellspan/zygote.py
