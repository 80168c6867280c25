#!/usr/bin/env bash
# Measures each preset of `ferretto record` for ten seconds: size of the file, largest memory and CPU time of the recorder. First
# as the machine is, then with two processes for each CPU that write, copy and check files. Prints the table of
# docs/recording.md; with --docs it is put there.
# usage: bench/presets.sh FERRETTO [--docs]; SECONDS_EACH=10
set -euo pipefail
ferretto=$(realpath "$1")
document=$(realpath "$(dirname "$0")/../docs/recording.md")
seconds=${SECONDS_EACH:-10}
presets=(--sched --syscalls --io --net --memory --irq --freq --perf '--ring 64MB')
folder=$(mktemp -d)
workers=()
clean() {
    for worker in "${workers[@]}"; do kill "$worker" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$folder"
}
trap clean EXIT
cd "$folder"

load() { cut -d ' ' -f 1 /proc/loadavg; }

# One line for each preset: the three columns.
measure() {
    local preset
    for preset in "${presets[@]}"; do
        # shellcheck disable=SC2086
        python3 - "$ferretto" record -q $preset -d "${seconds}s" -o trace <<'PYTHON'
import os, resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
size = os.path.getsize("trace")
print(f" {size / 1e6:.1f} MB | {used.ru_maxrss / 1024:.0f} MB | {used.ru_utime + used.ru_stime:.2f} s |", flush=True)
PYTHON
    done
}

work() {
    while :; do
        dd if=/dev/zero of="work.$1" bs=64k count=32 conv=fsync status=none
        cp "work.$1" "copy.$1"
        sha256sum "copy.$1" >/dev/null
    done
}

before=$(load)
measure >idle
after=$(load)
for number in $(seq $((2 * $(nproc)))); do
    work "$number" &
    workers+=($!)
done
sleep 2
measure >loaded
{
    echo "$(nproc) CPUs, Linux $(uname -r | cut -d - -f 1), $(LC_ALL=C date '+%B %Y'). As it was: a load of $before before and"
    echo "$after after. Loaded: two processes for each CPU that write, copy and check files, $(load) in the end."
    echo
    echo '| preset | file | memory | CPU time | file, loaded | memory | CPU time |'
    echo '|---|---|---|---|---|---|---|'
    for number in "${!presets[@]}"; do
        preset=${presets[number]}
        whole=''
        [[ $preset != --perf ]] || whole=', whole machine'
        echo "| \`$preset\`$whole |$(sed -n "$((number + 1))p" idle)$(sed -n "$((number + 1))p" loaded)"
    done
} >table
cat table
[[ ${2:-} == --docs ]] || exit 0
python3 - "$document" table <<'PYTHON'
import sys
document, table = sys.argv[1:]
text = open(document).read()
begin, end = "<!-- presets: begin -->\n", "<!-- presets: end -->\n"
head, rest = text.split(begin)
open(document, "w").write(head + begin + open(table).read() + end + rest.split(end)[1])
PYTHON
