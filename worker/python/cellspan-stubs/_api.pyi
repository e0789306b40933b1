# SPDX-License-Identifier: BSD-3-Clause
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal, NoReturn, TypeVar, Union, overload

from ._worker.remote import RemoteError as RemoteError

_T = TypeVar("_T")
_Path = Union[str, os.PathLike[str]]
_Paths = Union[_Path, Sequence[_Path]]
_Ranks = Union[str, int, Sequence[int], AbstractSet[int]]
_Time = Union[str, float]
_Merge = Literal["fold", "prefix", "rank0", "panel", "raw"]
_Init = Union[bool, Literal["nccl", "gloo"]]

@overload
def run(
    fn: _Path, *args: object, n: int | str | None = None, on: str | None = None, image: str | None = None, ranks: _Ranks | None = None, merge: _Merge | None = None,
    init: _Init | None = None, gpus: int | str | None = None, no_gpu: bool = False, share: bool = False, wait: _Time | None = None,
    env: Mapping[str, object] | None = None, cwd: _Path | None = None,
    no_code: bool = False, with_files: _Paths | None = None, timeout: _Time | None = None, grace: _Time | None = None,
    fresh: bool = False, gather: Literal[False] = False, seed: int | None = None,
) -> None: ...
@overload
def run(
    fn: Callable[..., _T], *args: Any, gather: Literal[True], n: int | str | None = None, on: str | None = None, image: str | None = None, ranks: _Ranks | None = None,
    merge: _Merge | None = None, init: _Init | None = None, gpus: int | str | None = None, no_gpu: bool = False, share: bool = False, wait: _Time | None = None,
    env: Mapping[str, object] | None = None, cwd: _Path | None = None,
    no_code: bool = False, with_files: _Paths | None = None, timeout: _Time | None = None, grace: _Time | None = None,
    fresh: bool = False, seed: int | None = None, **kw: Any,
) -> list[_T]: ...
@overload
def run(
    fn: Callable[..., _T], *args: Any, n: int | str | None = None, on: str | None = None, image: str | None = None, ranks: _Ranks | None = None, merge: _Merge | None = None,
    init: _Init | None = None, gpus: int | str | None = None, no_gpu: bool = False, share: bool = False, wait: _Time | None = None,
    env: Mapping[str, object] | None = None, cwd: _Path | None = None,
    no_code: bool = False, with_files: _Paths | None = None, timeout: _Time | None = None, grace: _Time | None = None,
    fresh: bool = False, gather: Literal[False] = False, seed: int | None = None, **kw: Any,
) -> _T: ...
@overload
def call(
    fn: _Path, args: Sequence[object] = (), kwargs: None = None, *, n: int | str | None = None, on: str | None = None, image: str | None = None,
    ranks: _Ranks | None = None, merge: _Merge | None = None, init: _Init | None = None, gpus: int | str | None = None, no_gpu: bool = False,
    share: bool = False, wait: _Time | None = None, env: Mapping[str, object] | None = None, cwd: _Path | None = None,
    no_code: bool = False, with_files: _Paths | None = None, timeout: _Time | None = None,
    grace: _Time | None = None, fresh: bool = False, gather: Literal[False] = False, seed: int | None = None,
) -> None: ...
@overload
def call(
    fn: Callable[..., _T], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, *, gather: Literal[True],
    n: int | str | None = None, on: str | None = None, image: str | None = None, ranks: _Ranks | None = None, merge: _Merge | None = None, init: _Init | None = None,
    gpus: int | str | None = None, no_gpu: bool = False, share: bool = False, wait: _Time | None = None, env: Mapping[str, object] | None = None,
    cwd: _Path | None = None,
    no_code: bool = False, with_files: _Paths | None = None, timeout: _Time | None = None, grace: _Time | None = None, fresh: bool = False, seed: int | None = None,
) -> list[_T]: ...
@overload
def call(
    fn: Callable[..., _T], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, *, n: int | str | None = None,
    on: str | None = None, image: str | None = None, ranks: _Ranks | None = None, merge: _Merge | None = None, init: _Init | None = None, gpus: int | str | None = None,
    no_gpu: bool = False, share: bool = False, wait: _Time | None = None, env: Mapping[str, object] | None = None, cwd: _Path | None = None,
    no_code: bool = False, with_files: _Paths | None = None, timeout: _Time | None = None, grace: _Time | None = None, fresh: bool = False, gather: Literal[False] = False, seed: int | None = None,
) -> _T: ...
def group(on: str | None = None) -> Group: ...

class Group:
    def __init__(self, home: Any, on: str | None = None) -> None: ...
    @overload
    def run(self, fn: _Path, *args: object, **kw: Any) -> None: ...
    @overload
    def run(self, fn: Callable[..., _T], *args: Any, gather: Literal[True], **kw: Any) -> list[_T]: ...
    @overload
    def run(self, fn: Callable[..., _T], *args: Any, gather: Literal[False] = False, **kw: Any) -> _T: ...
    def push(self, ranks: _Ranks | None = ..., *unnamed: NoReturn, **values: Any) -> None: ...
    def pull(self, *names: str, ranks: _Ranks | None = None) -> Any: ...
    def apply(self, fn: Callable[..., _T], *args: Any, **kw: Any) -> list[_T]: ...
    def map(self, fn: Callable[..., _T], *iterables: Iterable[Any], **options: Any) -> list[_T]: ...
    def scatter(
        self, name: str, values: Any, *, n: int | str | None = None, ranks: _Ranks | None = None, flatten: bool = False
    ) -> None: ...
    def gather(self, name: str, ranks: _Ranks | None = None) -> Any: ...
    @property
    def size(self) -> int: ...
    def ranks(self, beside: bool = False) -> list[dict[str, Any]]: ...
    @property
    def on(self) -> str | None: ...
    def stop(self, ranks: _Ranks | None = None) -> None: ...
    def restart(self, ranks: _Ranks | None = None) -> None: ...

class Handle:
    rank: int
    name: str
    why: str
    def __init__(self, rank: int, name: str, shown: str = "", why: str = "") -> None: ...
    def pull(self) -> Any: ...
