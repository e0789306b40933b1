# SPDX-License-Identifier: BSD-3-Clause
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, overload

from ._api import _Merge, _Path, _Paths, _Ranks, _Time

_A = TypeVar("_A")
_B = TypeVar("_B")
_T = TypeVar("_T")

@overload
def map(
    fn: Callable[[_A], _T], xs: Iterable[_A], /, *, n: int | str | None = None, chunksize: int | None = None, on: str | None = None, image: str | None = None,
    ranks: _Ranks | None = None, merge: _Merge | None = None, gpus: int | str | None = None, no_gpu: bool = False, share: bool = False, wait: _Time | None = None,
    env: Mapping[str, object] | None = None, cwd: _Path | None = None,
    no_code: bool = False, with_files: _Paths | None = None, timeout: _Time | None = None, grace: _Time | None = None,
    fresh: bool = False, seed: int | None = None, retries: int = 0, return_exceptions: Literal[False] = False,
) -> list[_T]: ...
@overload
def map(
    fn: Callable[[_A, _B], _T], xs: Iterable[_A], ys: Iterable[_B], /, *, n: int | str | None = None, chunksize: int | None = None,
    on: str | None = None, image: str | None = None, ranks: _Ranks | None = None, merge: _Merge | None = None, gpus: int | str | None = None, no_gpu: bool = False,
    share: bool = False, wait: _Time | None = None, env: Mapping[str, object] | None = None, cwd: _Path | None = None,
    no_code: bool = False, with_files: _Paths | None = None, timeout: _Time | None = None,
    grace: _Time | None = None, fresh: bool = False, seed: int | None = None, retries: int = 0,
    return_exceptions: Literal[False] = False,
) -> list[_T]: ...
@overload
def map(
    fn: Callable[..., _T], xs: Iterable[Any], ys: Iterable[Any], zs: Iterable[Any], /, *more: Iterable[Any], n: int | str | None = None,
    chunksize: int | None = None, on: str | None = None, image: str | None = None, ranks: _Ranks | None = None, merge: _Merge | None = None,
    gpus: int | str | None = None, no_gpu: bool = False, share: bool = False, wait: _Time | None = None, env: Mapping[str, object] | None = None,
    cwd: _Path | None = None,
    no_code: bool = False, with_files: _Paths | None = None, timeout: _Time | None = None, grace: _Time | None = None, fresh: bool = False, seed: int | None = None,
    retries: int = 0, return_exceptions: Literal[False] = False,
) -> list[_T]: ...
@overload
def map(
    fn: Callable[..., _T], xs: Iterable[Any], /, *more: Iterable[Any], return_exceptions: Literal[True], n: int | str | None = None,
    chunksize: int | None = None, on: str | None = None, image: str | None = None, ranks: _Ranks | None = None, merge: _Merge | None = None,
    gpus: int | str | None = None, no_gpu: bool = False, share: bool = False, wait: _Time | None = None, env: Mapping[str, object] | None = None,
    cwd: _Path | None = None,
    no_code: bool = False, with_files: _Paths | None = None, timeout: _Time | None = None, grace: _Time | None = None, fresh: bool = False, seed: int | None = None,
    retries: int = 0,
) -> list[_T | Exception]: ...
