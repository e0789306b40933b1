# SPDX-License-Identifier: BSD-3-Clause
"""cells.py PREFIX [HOST]: runs a few cells on the kernel `cellspan` that Jupyter finds; the exit status is not 0 if one fails.

PREFIX is the sys.prefix of the Python that the notebook must have. HOST is a host for ssh that has cellspan, too. RANKS in the environment is how many ranks the
notebook has (4).
"""

from __future__ import annotations

import os
import sys

from jupyter_client.manager import start_new_kernel

PREFIX = sys.argv[1]
RANKS = int(os.environ.get("RANKS", "4"))
CELLS = [
    ("import sys; data = 40; print(sys.prefix)", PREFIX),
    ("%%distribute -n " + str(RANKS) + "\nimport os, sys; print(os.environ['RANK'], data + 2, sys.prefix)", "%d 42 %s" % (RANKS - 1, PREFIX)),
    ("import cellspan; print(cellspan.__name__)", "cellspan"),
]
for host in sys.argv[2:]:
    CELLS.append(("%%distribute -n 2 --fresh --on ssh:" + host + "\nimport os, socket; print(os.environ['RANK'], socket.gethostname())", "1 " + host))


def run(client, code):
    """What the cell printed; raises where it failed."""
    text = []

    def hook(message):
        if message["msg_type"] == "stream":
            text.append(message["content"]["text"])

    reply = client.execute_interactive(code, timeout=200, output_hook=hook)["content"]
    if reply["status"] != "ok":
        raise SystemExit("%s\n%s%s" % (code, "".join(text), "\n".join(reply.get("traceback", [str(reply)]))))
    return "".join(text)


def main():
    manager, client = start_new_kernel(kernel_name="cellspan")
    try:
        client.kernel_info()
        version = client.get_shell_msg(timeout=60)["content"]["language_info"]["version"]
        assert version.count(".") == 2, version  # known before home is ready
        for code, want in CELLS:
            printed = run(client, code)
            print(printed)
            assert want in printed, (code, want, printed)
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


if __name__ == "__main__":
    main()
