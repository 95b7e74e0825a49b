"""The loop: what a run needs before its first step, its compiled steps, its driver, its file and its bar."""
