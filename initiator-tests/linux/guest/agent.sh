#!/bin/bash
# The guest's steady process: agent.sh WORK CHANNEL. Brings the machine up, then
# runs the cases of WORK/plan one after the other and says on CHANNEL what comes
# of each. A failed case ends the machine: what it left behind must not reach
# the next one. Lines on the channel begin with "@@".
work=$1 channel=$2
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C TERM=dumb

mount -t proc proc /proc
mount -t sysfs sys /sys
mountpoint -q /dev || mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs -o mode=755 run /run
mkdir -p /run/netns /run/lock /run/udev
modprobe -q configfs
mount -t configfs configfs /sys/kernel/config 2>/dev/null
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
[ "$channel" = /dev/console ] || stty -F "$channel" raw -echo
exec 3>"$channel"
tell() { echo "@@ $*" >&3; }

# Registered memory counts as locked memory, and a host needs an identity of
# its own: without one newer kernels refuse to connect.
ulimit -l unlimited
ulimit -n 65536
hostname guest
ip link set lo up
mkdir -p /etc/nvme
echo nqn.2014-08.org.nvmexpress:uuid:5ca1ab1e-0000-4000-8000-00000000cafe >/etc/nvme/hostnqn
echo 5ca1ab1e-0000-4000-8000-00000000cafe >/etc/nvme/hostid
rm -f /etc/nvme/discovery.conf /etc/nvme/config.json

. "$work/environment"
. "$work/guest/topology.sh"
export WORK=$work
read -r booted _ </proc/uptime
mkdir -p "$work/out"
if ! topology_up "$TOPOLOGY" >"$work/out/topology.log" 2>&1; then
    tell "broken topology $TOPOLOGY: $(tail -n 3 "$work/out/topology.log" | tr '\n' ' ')"
    echo o >/proc/sysrq-trigger
    sleep 10
fi
tell "up $booted $(uname -r)"

# What must never be in the kernel's log. A case's own words go there too
# (see case.sh), but none of these.
trouble='WARNING:|BUG:|Oops|general protection|Call Trace|possible (circular|recursive) locking|INFO: task .* blocked|soft lockup|rcu.*(stall|starved)|UBSAN|refcount_t|unable to handle|segfault at'

# But for what is known of kernels: from 6.11 on they now and then complain of themselves when
# they remove a namespace, or a controller that they were told not to try again, whoever the target is.
excused='nvme-(wq:nvme_scan|delete-wq:nvme_delete_ctrl)_work is flushing !WQ_MEM_RECLAIM'
complaints() {
    awk -v excused="$excused" '
        / cut here / { inside = 1; report = "" }
        !inside { print }
        inside { report = report $0 "\n" }
        inside && /end trace/ { inside = 0; if (report !~ excused) printf "%s", report; report = "" }
        END { printf "%s", report }' "$1" | grep -E -m 1 "$trouble"
}

while read -r name limit; do
    out=$work/out/$name
    mkdir -p "$out"
    dmesg -C
    read -r began _ </proc/uptime
    tell "begin $name"
    CASE=$name OUT=$out timeout -k 10 "$limit" bash "$work/guest/case.sh" >"$out/output" 2>&1 </dev/null
    status=$?
    dmesg >"$out/dmesg"
    read -r ended _ </proc/uptime
    took=$(awk "BEGIN { printf \"%.1f\", $ended - $began }")
    if [ $status = 0 ] && complaint=$(complaints "$out/dmesg"); then
        status=99
    fi
    case $status in
    0) tell "end $name passed $took" ;;
    77) tell "end $name skipped $took $(tail -n 1 "$out/output")" ;;
    99) tell "end $name failed $took kernel log: $complaint" ;;
    124 | 137) tell "end $name failed $took no end after $limit s; last: $(grep . "$out/output" | tail -n 1)" ;;
    *) tell "end $name failed $took $(grep -a -m 1 '^FAILED' "$out/output")" ;;
    esac
    case $status in 0 | 77) ;; *) break ;; esac
done <"$work/plan"

tell down
sync
echo o >/proc/sysrq-trigger
sleep 10
