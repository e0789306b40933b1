# SPDX-License-Identifier: BSD-3-Clause
"""What a cell finds in its process, beside what it finds in ipykernel's: each difference stands in a table here, with its reason. A
difference without a reason fails, and so does a reason without a difference."""

from __future__ import annotations

import fnmatch
import importlib.util
import json

import pytest
from client import Notebook

PROBE = r'''
def _probe():
    import builtins, os, re, signal, sys, types, warnings
    ip = get_ipython()
    def what(value):
        if isinstance(value, (types.FunctionType, types.MethodType, types.BuiltinFunctionType)):
            return "%s.%s" % (value.__module__, value.__qualname__)
        return type(value).__qualname__
    def public(value, but=object):
        return {name: "" for name in dir(value) if name[0] != "_" and not hasattr(but, name)}
    from traitlets.config import Configurable, SingletonConfigurable
    manager, transformers = ip.magics_manager.magics, ip.input_transformer_manager
    lists = {"cleanup": transformers.cleanup_transforms, "line": transformers.line_transforms, "token": transformers.token_transformers,
             "post": ip.input_transformers_post, "ast": ip.ast_transformers}
    traits = {name: ip.trait_metadata(name, "config") and getattr(ip, name) for name in ip.trait_names()}
    return {
        "extensions": dict.fromkeys(ip.extension_manager.loaded, ""),
        "line magics": dict.fromkeys(manager["line"], ""),
        "cell magics": dict.fromkeys(manager["cell"], ""),
        "aliases": dict(ip.alias_manager.aliases),
        "hooks": {name: [(at, what(f)) for at, f in getattr(hook, "chain", [(0, hook)])] for name, hook in ip.hooks.items()},
        "events": {name: [what(f) for f in found] for name, found in ip.events.callbacks.items()},
        "transformers": {name: [getattr(f, "__name__", what(f)) for f in found] for name, found in lists.items()},
        "sys": {name: what(getattr(sys, name)) for name in dir(sys)},
        "path": {str(at): name for at, name in enumerate(sys.path)},
        "environment": {name: re.sub(r"\d{4,}", "N", value) for name, value in os.environ.items() if name != "CELLSPAN_TEST_MARKER"},
        "signals": {s.name: getattr(signal.getsignal(s), "__name__", str(signal.getsignal(s))) for s in signal.Signals},
        "shell": public(ip),
        "options": {name: repr(value) for name, value in traits.items() if isinstance(value, (str, int, bool, list, type(None)))},
        "kernel": public(getattr(ip, "kernel", None), but=SingletonConfigurable),
        "names": {re.sub(r"^_i\d+$", "_iN", name): "" for name in ip.user_ns if name != "_probe"},
        "hidden": {re.sub(r"^_i\d+$", "_iN", name): "" for name in ip.user_ns_hidden if name != "_probe"},
        "builtins": {name: what(value) for name, value in vars(builtins).items()},
        "warnings": {"%s %s %s" % (f[0], f[1] and f[1].pattern, f[2].__name__): "" for f in warnings.filters},
    }
import json
print(json.dumps(_probe()))
'''

# (process, what is compared): {reason: the names that differ, or patterns of them}
REASONS = {
    ("rank", "extensions"): {"%store is home's: ranks would write the same files": "IPython.extensions.storemagic"},
    ("home", "line magics"): {"cellspan's own": "distribute gather pull push px ranks scatter"},
    ("rank", "line magics"): {
        "a rank has no client: it prints a line": "autosave connect_info qtconsole subshell",
        "registered when first used": "clear less man more",
        "home's": "store",
    },
    ("home", "cell magics"): {"cellspan's own": "distribute px"},
    ("both", "transformers"): {"empty lines at a cell's start stay, so that line numbers are those of the page": "cleanup"},
    ("both", "sys"): {
        "text goes to the agent through descriptors 1 and 2": "stdout stderr __stdout__ __stderr__",
        "values go to the agent": "displayhook",
        "debugpy is imported only when a debugger is switched on": "breakpointhook",
    },
    ("rank", "sys"): {"with these, torch and others believe that a person types, and refuse to start processes": "ps1 ps2 ps3"},
    ("both", "path"): {"the notebook's folder is before Python's own modules, as a script's; cellspan's folder is the last": "*"},
    ("both", "environment"): {
        "%connect_info shows the file": "CELLSPAN_CONNECTION_FILE",
        "debugpy is imported only when a debugger is switched on": "PYDEVD_USE_FRAME_EVAL",
    },
    ("rank", "environment"): {
        "torchrun's": "GROUP_* LOCAL_* MASTER_* ROLE_* TORCHELASTIC_* RANK WORLD_SIZE OMP_NUM_THREADS",
        "for other libraries that ask for the world": "JAX_* NODE_RANK",
        "a rank that fails must not end the others": "TORCH_NCCL_* NCCL_RAS_ADDR",
    },
    ("both", "signals"): {"handlers of atexit run before the process ends": "SIGTERM"},
    ("both", "shell"): {"cellspan's own": "cell_over keep_history run_part run_whole_cell within_a_run worker", "readline is of no use in a kernel, and nothing reads it": "readline_use"},
    ("both", "options"): {
        "no options: nobody sets them": "data_pub_class readline_use",
        "the shell's own objects, which are plain attributes here: each cell reads them several times": "builtin_trap display_trap history_manager",
        "attributes without a trait, since an assignment to a trait takes as long as a small cell": "execution_count last_execution_*",
    },
    ("home", "kernel"): {
        "requests are answered by another process": "*_request dispatch_* do_apply do_clear do_complete do_debug_request do_execute do_history do_inspect"
        " do_is_complete do_shutdown *_handler_hook *_handlers msg_types control_msg_types should_handle finish_metadata init_metadata kernel_info set_parent",
        "sockets, threads and ports are another process's": "*_stream shell_streams *_socket *_thread shell_channel_thread_main record_ports process_control"
        " poll_stopped_queue start shell_main",
        "kernel_info_request tells it to clients": "banner help_links implementation_version language_info",
        "the kernel's parts of its own": "compiler_class debugger debugger_class debug_just_my_code filter_internal_frames ident int_id shell_class"
        " stop_on_error_timeout use_experimental_completions profile_dir saved_sigint_handler",
        "asyncio.get_event_loop() is the loop; window systems have none here": "io_loop enter_eventloop",
        "the page gets them from the kernel's process": "get_process_metric_value processes",
        "libraries that were written for older kernels call it": "do_one_iteration",
    },
    ("rank", "kernel"): {"a rank is no kernel: get_ipython().kernel is None": "*"},
    ("rank", "hidden"): {"ranks run no start-up files, whose names would be hidden": "_* __*"},
    ("both", "builtins"): {
        "debugpy's, which is imported only when a debugger is switched on": "execfile runfile",
        "asks the client through the agent": "input",
        "the text of cellspan's own cells names its functions by it, whatever names the user has bound": "__cellspan__",
    },
    ("both", "warnings"): {"only Windows can get this warning": "*Trio*"},
}
if importlib.util.find_spec("torch") is not None:
    REASONS["rank", "warnings"] = {"those of numpy and torch, which are imported before ranks are forked": "*numpy* *Tracer* *RankWarning* *torch*"}


@pytest.fixture(scope="module")
def found():
    """What the probe says in ipykernel, at home and on a rank."""
    said = {}
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PYTHONUNBUFFERED", "MPLBACKEND", "NO_COLOR", "OMP_NUM_THREADS"):
            patch.delenv(name, raising=False)
        patch.setenv("TERM", "xterm-color")  # what ipykernel sets
        for kernel in ("python3", "cellspan"):
            nb = Notebook(kernel=kernel)
            try:
                said["ipykernel" if kernel == "python3" else "home"] = json.loads(nb.ok(PROBE).stdout)
                if kernel == "cellspan":
                    said["rank"] = json.loads(nb.ok("%%distribute -n 1 --merge raw\n" + PROBE, 120).stdout)
            finally:
                nb.close()
    return said


def reasons(process, part):
    """The names, or patterns of names, that may differ."""
    return [name for who in (process, "both") for names in REASONS.get((who, part), {}).values() for name in names.split()]


@pytest.mark.parametrize("process", ["home", "rank"])
def test_every_difference_from_ipykernel_has_a_reason(found, process):
    wrong = []
    for part, theirs in found["ipykernel"].items():
        ours, known = found[process][part], reasons(process, part)
        differ = sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))
        for name in differ:
            if not any(fnmatch.fnmatchcase(name, pattern) for pattern in known):
                wrong.append("%s: %s: %s in ipykernel, %s at %s" % (part, name, theirs.get(name, "none"), ours.get(name, "none"), process))
        wrong += ["%s: %s: the reason is stale" % (part, pattern) for pattern in known if not fnmatch.filter(differ, pattern)]
    assert not wrong, "\n".join(wrong)
