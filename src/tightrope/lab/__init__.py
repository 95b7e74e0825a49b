"""The paper's figures with verdicts, and the leaderboard; nothing in the library depends on them."""
