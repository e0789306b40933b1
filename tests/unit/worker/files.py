# SPDX-License-Identifier: BSD-3-Clause
"""Files for tests."""


def write(folder, *names, **texts):
    """Writes files below a folder: names are empty ones; texts are of modules, {name without .py: text}."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for name, text in texts.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
