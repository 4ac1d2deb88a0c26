"""What ties a number to the code that made it."""

from __future__ import annotations

from pathlib import Path

from benchmarks.code import digest_package


def test_a_digest_is_of_every_source_file_s_name_and_bytes(tmp_path: Path) -> None:
    """Alike wherever it lies; another one where a file is changed, renamed or added; what is no source does not count."""
    first, second = tmp_path / "first", tmp_path / "second"
    for package in (first, second):
        (package / "inner").mkdir(parents=True)
        (package / "a.py").write_text("A = 1\n", encoding="utf-8")
        (package / "inner" / "b.py").write_text("B = 1\n", encoding="utf-8")
    was = digest_package(first)
    (second / "notes.txt").write_text("none", encoding="utf-8")
    (second / "counts.json").write_text("{}", encoding="utf-8")
    assert digest_package(second) == was
    (second / "a.py").write_text("A = 2\n", encoding="utf-8")
    changed = digest_package(second)
    (second / "a.py").rename(second / "c.py")
    renamed = digest_package(second)
    (second / "d.py").touch()
    assert len({was, changed, renamed, digest_package(second)}) == 4
