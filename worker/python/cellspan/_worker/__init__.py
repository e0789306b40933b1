"""The processes of home, the zygote and the ranks. `python -m cellspan._worker` starts home or a zygote."""
