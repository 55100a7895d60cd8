"""Where a job keeps what it goes on from: a small protocol, and what stands behind it."""
