#!/usr/bin/env bash
# What each preset of `ferretto record` costs: size of the file, largest memory and CPU time of the recorder for ten seconds, as
# rows of the table in docs/recording.md. The load before and after is told, as it decides how much there is to record.
# usage: bench/presets.sh FERRETTO [SECONDS]
set -euo pipefail
ferretto=$(realpath "$1")
seconds=${2:-10}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
load() { cut -d ' ' -f 1-3 /proc/loadavg; }
echo "$(nproc) CPUs, Linux $(uname -r), load $(load)"
echo '| preset | file | memory | CPU time |'
echo '|---|---|---|---|'
for preset in --sched --syscalls --io --net --memory --irq --freq --perf '--ring 64MB'; do
    # shellcheck disable=SC2086
    python3 - "$preset" "$ferretto" record -q $preset -d "${seconds}s" -o trace <<'PYTHON'
import os, resource, subprocess, sys
preset, *command = sys.argv[1:]
subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
size = os.path.getsize("trace")
whole = ", whole machine" if preset == "--perf" else ""
print(f"| `{preset}`{whole} | {size / 1e6:.1f} MB | {used.ru_maxrss / 1024:.0f} MB "
      f"| {used.ru_utime + used.ru_stime:.2f} s |", flush=True)
PYTHON
done
echo "load $(load)"
