"""For people who compare: methods of others, solved problems, theory, the leaderboard and the paper's figures."""
