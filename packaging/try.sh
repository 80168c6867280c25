#!/usr/bin/env bash
# Tests a package in an empty root: installs it, runs its programs, removes it, and checks that no file is left behind. With
# the development package, also builds and records a C program.
# Needs root, dpkg and python3. Usage: packaging/try.sh ferretto.deb [ferretto-dev.deb]
set -euo pipefail
deb=$(realpath "$1")
development=${2:+$(realpath "$2")}
sources=$(realpath "$(dirname "$0")/..")
if [[ $(id -u) != 0 ]] || ! command -v dpkg >/dev/null || ! command -v python3 >/dev/null; then
    echo 'skipped: testing a package needs root, dpkg and python3'
    exit 0
fi
root=$(mktemp -d)
scratch=$(mktemp -d)
pids=()
clean() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    for folder in sys proc dev; do umount -R "$root/$folder" 2>/dev/null || true; done
    rm -rf --one-file-system "$root" "$root.before" "$root.after" "$scratch"
}
trap clean EXIT

# The programs that dpkg and the package's scripts call, with their libraries.
for program in sh dpkg dpkg-deb dpkg-split dpkg-query tar diff rm grep groupadd groupdel ldconfig start-stop-daemon sleep; do
    path=$(command -v "$program") || { echo "skipped: $program is not installed"; exit 0; }
    install -D "$path" "$root/usr/bin/$program"
    { ldd "$path" 2>/dev/null | grep -o '/[^ ]*' || true; } | while read -r library; do
        install -D "$library" "$root$library"
    done
done
mkdir -p "$root"/{etc,run,tmp,dev,proc,sys,var/lib/dpkg/info,var/lib/dpkg/updates,usr/sbin,var/log}
[[ -e $root/bin ]] || ln -s usr/bin "$root/bin"
cp -n "$root"/usr/bin/{ldconfig,start-stop-daemon} "$root/usr/sbin/" 2>/dev/null || true
[[ -e $root/sbin ]] || ln -s usr/sbin "$root/sbin"
touch "$root"/var/lib/dpkg/{status,available} "$root"/etc/gshadow
echo 'root:x:0:0:root:/:/bin/sh' >"$root/etc/passwd"
echo 'root:x:0:' >"$root/etc/group"
for folder in proc sys dev; do mount --rbind "/$folder" "$root/$folder" && mount --make-rslave "$root/$folder"; done
in_root() { PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" "$@"; }
files() { (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./var \) -prune -o -print | sort); }
files >"$root.before"
in_root dpkg --version >/dev/null

cp "$deb" "$root/tmp/package.deb"
in_root dpkg --install /tmp/package.deb >/dev/null
rm "$root/tmp/package.deb"
grep -q '^tracing:' "$root/etc/group" || { echo 'the package created no group tracing'; exit 1; }
in_root ferretto doctor >/dev/null || [[ $? == 3 ]]
in_root ferretto record -q -d 500ms -o /tmp/trace
in_root ferretto summary /tmp/trace | head -n 1
in_root ferretto query /tmp/trace 'select 6 * 7 as answer' | grep -qx 42

for file in bin/{ferretto,ferretto-query,traced,traced_probes,traced_perf,heapprofd,perfetto} lib/ferretto/libferretto_heap.so \
    lib/systemd/system/{traced.service,traced-{producer,consumer}.socket,traced_probes.service,traced_perf.service} \
    lib/systemd/system/heapprofd.{service,socket} lib/sysusers.d/ferretto.conf lib/tmpfiles.d/ferretto.conf \
    share/man/man1/{ferretto,ferretto-query,ferretto-record,traced,heapprofd}.1 share/bash-completion/completions/ferretto \
    share/zsh/vendor-completions/_ferretto share/fish/vendor_completions.d/ferretto.fish; do
    [[ -e $root/usr/$file ]] || { echo "the package has no /usr/$file"; exit 1; }
done
bash -n "$root/usr/share/bash-completion/completions/ferretto"

# Starts a program like systemd: on the first connection to a socket of its units.
mkdir -p "$root/run/perfetto"
activate() {
    python3 - "$root" "$@" <<'PYTHON' &
import os, re, select, socket, sys
root, program, *units = sys.argv[1:]
sockets = []
for unit in units:
    text = open(f"{root}/usr/lib/systemd/system/{unit}.socket").read()
    path = re.search("ListenStream=(.*)", text)[1]
    name = re.search("FileDescriptorName=(.*)", text)[1]
    mode = re.search("SocketMode=(.*)", text)[1]
    one = socket.socket(socket.AF_UNIX)
    one.bind(root + path)
    os.chmod(root + path, int(mode, 8))
    one.listen()
    sockets.append((one, name))
select.select([one for one, _ in sockets], [], [])
for number, (one, _) in enumerate(sockets):
    os.dup2(one.fileno(), 100 + number)
for number in range(len(sockets)):
    os.dup2(100 + number, 3 + number, inheritable=True)
    os.close(100 + number)
os.chroot(root)
os.chdir("/")
os.environ.update(LISTEN_FDS=str(len(sockets)), LISTEN_PID=str(os.getpid()),
                  LISTEN_FDNAMES=":".join(name for _, name in sockets))
os.execv("/usr/bin/ferretto", [program])
PYTHON
    pids+=($!)
}
activate traced traced-producer traced-consumer
activate heapprofd heapprofd
for _ in $(seq 100); do [[ -S $root/run/perfetto/traced-consumer.sock ]] && break || sleep 0.1; done
chroot "$root" /usr/bin/ferretto traced_probes >/dev/null 2>&1 &
pids+=($!)
in_root ferretto record -q --system -d 1s -o /tmp/by-service
in_root ferretto summary /tmp/by-service | head -n 1

# A connection starts the heap profiler, which then registers its data source.
for _ in $(seq 100); do [[ -S $root/run/perfetto/heapprofd.sock ]] && break || sleep 0.1; done
python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' "$root/run/perfetto/heapprofd.sock"
for _ in $(seq 100); do
    in_root perfetto --query | grep -q android.heapprofd && break
    sleep 0.1
done
in_root perfetto --query | grep -q android.heapprofd || { echo 'heapprofd was not started by its socket'; exit 1; }

# The program has no dependencies: it also records in a root that contains only the program.
install -D "$root/usr/bin/ferretto" "$scratch/empty/ferretto"
mkdir "$scratch/empty/tmp"
chroot "$scratch/empty" /ferretto --version
chroot "$scratch/empty" /ferretto record -q -d 200ms -o /tmp/trace
[[ -s $scratch/empty/tmp/trace ]]

if [[ -n $development ]]; then
    if command -v cc >/dev/null && command -v pkg-config >/dev/null; then
        dpkg-deb --extract "$development" "$scratch/dev"
        export PKG_CONFIG_PATH=$scratch/dev/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$scratch/dev
        # shellcheck disable=SC2046
        cc "$sources/crates/capi/examples/example.c" -o "$scratch/program" $(pkg-config --cflags --libs perfetto_c)
        LD_LIBRARY_PATH=$scratch/dev/usr/lib "$root/usr/bin/ferretto" record -q -o "$scratch/trace" -- "$scratch/program"
        "$root/usr/bin/ferretto" summary "$scratch/trace" | grep track_event
    else
        echo 'skipped: testing the development package needs cc and pkg-config'
    fi
fi
for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
wait 2>/dev/null || true
pids=()

rm -f "$root"/tmp/*
in_root dpkg --purge ferretto >/dev/null
# Backups and locks of groupadd and groupdel.
rm -f "$root"/etc/*- "$root/etc/.pwd.lock"
files >"$root.after"
if ! diff "$root.before" "$root.after"; then
    echo 'the package left these files behind, or removed them'
    exit 1
fi
if grep '^tracing:' "$root/etc/group"; then
    echo 'the package left the group tracing behind'
    exit 1
fi
echo 'installed, used and removed the package; no file is left behind'
