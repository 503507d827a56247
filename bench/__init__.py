"""What the library costs, as ratios against something well known; `python -m bench` prints them."""
