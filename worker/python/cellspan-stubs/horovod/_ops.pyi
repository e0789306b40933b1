# SPDX-License-Identifier: BSD-3-Clause
import enum

class ReduceOp(enum.IntEnum):
    Average = 0
    Sum = 1
    Adasum = 2
    Min = 3
    Max = 4
    Product = 5
