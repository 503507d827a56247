"""What a home holds: lists, searches and trees of its rollouts, the index behind them, and what agents read."""
