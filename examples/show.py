# SPDX-License-Identifier: BSD-3-Clause
"""Prints the text outputs of an executed notebook: what a terminal can show of it."""

import json
import sys


def text_of(output):
    """The text of one output; a picture gives a word in its place."""
    if output["output_type"] == "stream":
        return "".join(output["text"])
    if output["output_type"] == "error":
        return "\n".join(output["traceback"]) + "\n"
    data = output.get("data", {})
    kinds = [kind for kind in data if kind.startswith("image/")]
    if kinds:
        return "(a figure, %s)\n" % kinds[0]
    return "".join(data.get("text/plain", "")) + "\n"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        notebook = json.load(file)
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            print("   ", text_of(output).rstrip("\n").replace("\n", "\n    "))


if __name__ == "__main__":
    main()
