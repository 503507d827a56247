"""`rollout replay`: a session stepped through on the screen, or printed."""
