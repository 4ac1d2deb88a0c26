"""What keeps a store from storing."""

from __future__ import annotations

from threadkeep.errors.root import ThreadkeepError


class StoreError(ThreadkeepError):
    """Something about the store itself; `location` says which one."""

    code = "store_error"

    def __init__(self, location: str, text: str) -> None:
        super().__init__(f"store {location}: {text}")
        self.location = location


class StoreMissing(StoreError):
    code = "store_missing"

    def __init__(self, location: str) -> None:
        super().__init__(
            location, "there is no such store yet; `threadkeep serve` or the library makes one when it first records"
        )


class StoreBusy(StoreError):
    code = "store_busy"

    def __init__(self, location: str) -> None:
        super().__init__(location, "another process kept the write lock too long; nothing was written, try again")


class StoreUnreachable(StoreError):
    code = "store_unreachable"

    def __init__(self, location: str, reason: str) -> None:
        super().__init__(
            location, f"its server does not serve us ({reason}); nothing was written, check that it runs and who may log in"
        )
        self.reason = reason


class StoreFull(StoreError):
    code = "store_full"

    def __init__(self, location: str) -> None:
        super().__init__(location, "the disk is full; nothing was written, free some space and try again")


class StoreReadOnly(StoreError):
    code = "store_read_only"

    def __init__(self, location: str) -> None:
        super().__init__(location, "the file or its folder cannot be written; check its permissions")


class StoreForeign(StoreError):
    code = "store_foreign"

    def __init__(self, location: str) -> None:
        super().__init__(location, "this file was not made by threadkeep; it was left untouched, choose another path")


class StoreTooNew(StoreError):
    code = "store_too_new"

    def __init__(self, location: str, *, found: int, known: int) -> None:
        super().__init__(location, f"its schema is version {found}, this threadkeep knows {known}; upgrade threadkeep")
        self.found = found
        self.known = known


class StoreCorrupt(StoreError):
    code = "store_corrupt"

    def __init__(self, location: str, detail: str) -> None:
        super().__init__(location, f"the file is damaged ({detail}); keep a copy, then run `threadkeep verify`")
        self.detail = detail


class StoreClosed(StoreError):
    code = "store_closed"

    def __init__(self, location: str) -> None:
        super().__init__(location, "it is closed; open it again")
