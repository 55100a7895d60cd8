"""headrace's own dashboard: pages over what the status model knows of a job, wherever that job runs or has run."""
