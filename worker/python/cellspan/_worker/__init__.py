"""The process of home, of the zygote and of each rank. `python -m cellspan._worker` starts one."""
