"""What identifies a run: the commit that trained it."""

from cvflows.runs.identity import source_commit


def test_a_run_says_which_commit_trained_it(tmp_path):
    """From git's own files: a branch, a packed branch, a detached head, and no checkout at all."""
    git, commit = tmp_path / ".git", "0123456789abcdef0123456789abcdef01234567"
    assert source_commit(tmp_path) is None
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text(f"{commit}\n")
    assert source_commit(tmp_path) == commit
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "packed-refs").write_text(f"# pack-refs\n{commit} refs/heads/main\n")
    assert source_commit(tmp_path) == commit
    (git / "refs" / "heads" / "main").write_text(commit[::-1])
    assert source_commit(tmp_path) == commit[::-1]
