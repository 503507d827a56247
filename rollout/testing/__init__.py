"""What users get to test their own agents: a disk that crashes and fails on request, and the crash explorer."""
