"""Runs a command; prints its wall time and its peak memory as JSON.

Usage: python timed.py COMMAND [ARGUMENT]...
"""

import json
import resource
import subprocess
import sys
import time

start = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps({"seconds": seconds, "peak_rss_kb": peak}))
