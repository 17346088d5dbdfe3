"""What identifies a run: the commit that trained it."""

import subprocess

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


def test_further_worktrees_know_their_commit(tmp_path):
    def git(*words, cwd=tmp_path / "first"):
        given = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        return subprocess.run(["git", *given, *words], cwd=cwd, check=True, capture_output=True, text=True).stdout

    (tmp_path / "first").mkdir()
    git("init", "--quiet", "--initial-branch", "main")
    git("commit", "--quiet", "--allow-empty", "--message", "one")
    git("worktree", "add", "--quiet", "-b", "other", "../second")
    git("commit", "--quiet", "--allow-empty", "--message", "two", cwd=tmp_path / "second")
    second = git("rev-parse", "HEAD", cwd=tmp_path / "second").strip()
    assert source_commit(tmp_path / "first") == git("rev-parse", "HEAD").strip() != second
    assert source_commit(tmp_path / "second") == second
    git("pack-refs", "--all")
    assert source_commit(tmp_path / "second") == second
    git("checkout", "--quiet", "--detach", cwd=tmp_path / "second")
    assert source_commit(tmp_path / "second") == second
