# SPDX-License-Identifier: BSD-3-Clause
"""What the modules of _dropin/ may use beside the public names of the package. They import no other private module, so this table says
which functions they rely on. The module of a name is imported when a drop-in asks for the name."""

from __future__ import annotations

import importlib

# The name in this module: the module that has it, or module:name where it is called otherwise there.
_FROM = {
    # calls of functions, scripts and magics
    "CALL_SHOWN": "_link",
    "NotAtHomeError": "_api",
    "caller": "_api",
    "check_call": "_api",
    "current_home": "_api",
    "is_far": "_api",
    "is_on_rank": "_api",
    "magic_line": "_api",
    "exit_code": "_jobs",
    "group": "_api",
    "is_of_rank": "_jobs",
    "OwnNames": "_option_errors",
    "launch": "_jobs",
    "launch_script": "_jobs",
    "is_of_ranks": "_worker.remote",
    # where work for a cluster runs
    "gpus_here": "_cluster_place",
    "gpus_of_place": "_cluster_place",
    "place_and_gpus": "_cluster_place",
    "place_of": "_cluster_place",
    # asynchronous calls, and map
    "Now": "_futures",
    "begin": "_futures",
    "check_place": "_futures",
    "size": "_futures",
    "checked": "_map",
    # divided sequences
    "bounds": "_scatter",
    "joined": "_scatter",
    "numbers": "_scatter",
    "scatter": "_scatter",
    "slice_of": "_scatter",
    # objects that home and ranks send each other while a call runs
    "Exchange": "_worker.exchange",
    "receive_part": "_worker.exchange",
    "send_load": "_worker.exchange",
    "this_rank": "_worker.exchange",
    "serving": "_map",
    "pack_bytes": "_capture.vars_bundle",
    "reason": "_capture.vars_bundle",
    "slots_free": "_worker.spark_session",
    # on a rank
    "choose_backend": "_worker.torchenv",
    "destroy_group": "_worker.torchenv:destroy_process_group",
    "has_group": "_worker.torchenv:is_initialized",
    "init_group": "_worker.torchenv:init_process_group",
    "last_shown": "_worker.pxrank:shown",
    # magics, settings and modules
    "NO_CLIENTS": "_jupyter.kernelmagics",
    "px": "_jupyter.kernelmagics",
    "Option": "_base.options",
    "directory": "_base.public",
    "parse": "_base.options",
    "usage": "_base.options",
    "whole": "_base.whole",
    "setting": "_link",
    "when_imported": "_base.imports",
}


def __getattr__(name):
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, other = _FROM[name].partition(":")
    return getattr(importlib.import_module("." + module, __package__), other or name)
