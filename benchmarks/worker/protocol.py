"""Names of the files that host and worker meet in, beside job.json and the .npy arrays."""

EVENTS_FILE = "events.jsonl"  # the worker's words, one JSON object per line
BUILD_FILE = "build.json"  # stands in the index folder once the index is saved whole
JUDGED_FILE = "judged"  # the host's word that the worker may go on; it may hold further points, as job.json does
