"""cells.py ENV: runs a few cells on the kernel in ENV's Jupyter folder; the exit status is not 0 if one fails."""

from __future__ import annotations

import os
import sys

ENV = os.path.abspath(sys.argv[1])
os.environ["JUPYTER_PATH"] = os.path.join(ENV, "share", "jupyter")

from jupyter_client.kernelspec import KernelSpecManager  # noqa: E402  (after the environment that it reads)
from jupyter_client.manager import start_new_kernel  # noqa: E402

CELLS = [
    ("import sys; print(sys.prefix)", ENV),
    ("%%distribute -n 2\nimport os, sys; print(os.environ['RANK'], sys.prefix)", "1 " + ENV),
    ("import cellspan; print(cellspan.__name__)", "cellspan"),
]


def run(client, code):
    """What the cell printed; raises where it failed."""
    text = []

    def hook(message):
        if message["msg_type"] == "stream":
            text.append(message["content"]["text"])

    reply = client.execute_interactive(code, timeout=200, output_hook=hook)["content"]
    if reply["status"] != "ok":
        raise SystemExit("%s\n%s" % (code, "\n".join(reply.get("traceback", [str(reply)]))))
    return "".join(text)


def main():
    directory = KernelSpecManager().get_kernel_spec("cellspan").resource_dir
    assert directory.startswith(ENV), directory
    manager, client = start_new_kernel(kernel_name="cellspan")
    try:
        for code, want in CELLS:
            printed = run(client, code)
            print(printed)
            assert want in printed, (code, want, printed)
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


if __name__ == "__main__":
    main()
