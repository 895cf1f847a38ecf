"""A way between the ranks of a training that needs no collective and outlives the process group.

The process group's own store serves while the group lives.  It is not kept beyond that: on rank 0 it is the server
itself, and keys that a server was to take with it would mislead a group that begins on the same port later.  What lasts
is the store of torchrun's agent, or else a server of its own on rank 0, whose port the group's store made known.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch.distributed

dist: Any = torch.distributed  # it does not export its stores to a type checker
CONNECTING = timedelta(seconds=5)
_PORT = "port"
_IS_AVAILABLE: bool = dist.is_available()


class Channel:
    """Texts by key, shared by the guards of one name on all ranks; a single process is rank 0 of 1.

    What fails in the stores of torch is raised, as a :class:`RuntimeError`.

    Args:
        name: the same on all ranks, and another one for each guard.
    """

    def __init__(self, name: str) -> None:
        self._name = f"gradlint/{name}"
        self._lasting: Any = None  #: a store that does not depend on the process group
        self.expected: set[str] = set()  #: keys under which others leave texts, to be forgotten at the end
        self.rank = 0
        self.size = 1

    def open(self) -> bool:
        """Find the other ranks, if there is a process group; whether there is nothing more to find."""
        group_store = _of_group()
        if group_store is None:
            return False
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        server = _server(group_store)
        if self.size == 1 or self._lasting is not None:
            return True
        if _has_agent(self.rank, self.size):
            attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
            agent = _connected(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
            self._lasting = dist.PrefixStore(f"{attempt}/{self._name}", agent)
        elif server is None:
            return True
        elif self.rank == 0:
            self._lasting = dist.TCPStore(server.host, 0, is_master=True, wait_for_workers=False, timeout=CONNECTING)
            dist.PrefixStore(self._name, group_store).set(_PORT, str(self._lasting.port))
        else:
            known = dist.PrefixStore(self._name, group_store)
            if not known.check([_PORT]):
                return False
            self._lasting = _connected(server.host, int(known.get(_PORT)))
        return True

    def put(self, key: str, text: str) -> None:
        """Leave a text for the others."""
        failure: RuntimeError = RuntimeError("there is no store to put it in")
        for store in self._stores():
            try:
                store.set(key, text)
            except RuntimeError as error:
                failure = error
            else:
                return
        raise failure

    def get(self, key: str) -> str | None:
        """The text under a key; None as long as there is none."""
        for store in self._stores():
            if store.check([key]):
                return str(store.get(key).decode())
        return None

    def drop(self, key: str) -> None:
        """Forget a key, where the store can do that."""
        for store in self._stores():
            with suppress(RuntimeError):
                store.delete_key(key)

    def _stores(self) -> Iterator[Any]:
        if self._lasting is not None:
            yield self._lasting
        group_store = _of_group()
        if group_store is not None:
            yield dist.PrefixStore(self._name, group_store)


def there_is_a_group() -> bool:
    """Whether a process group was made, and is still there."""
    return _IS_AVAILABLE and bool(dist.is_initialized())


def _of_group() -> Any:
    """The store of the process group; None without one."""
    if not there_is_a_group() or dist.get_rank() < 0:
        return None
    return dist.distributed_c10d._get_default_store()


def _server(store: Any) -> Any:
    """The connection to the server that a store puts prefixes before; None for a store of another kind."""
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    return store if isinstance(store, dist.TCPStore) else None


def _has_agent(rank: int, size: int) -> bool:
    """Whether torchrun's agent started this process, as this rank, and serves its ranks a store."""
    ranks = (os.environ.get("RANK"), os.environ.get("WORLD_SIZE"))
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and ranks == (str(rank), str(size))


def _connected(host: str, port: int) -> Any:
    return dist.TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=CONNECTING)
