#!/bin/bash
# The other end of the wire, outside of the machine: outside.sh WORK. Runs in a
# network namespace of its own and serves the guest's requests (outside, in
# wire.sh). Each line of standard input names a file in WORK/ask with commands;
# what they write goes to the file's name with .output, their status to .status.
# A command that fails ends this process, as it would end a case.
set -Eeuo pipefail
work=$1 export WORK=$1
. "$WORK/environment"
. "$WORK/guest/common.sh"
. "$WORK/guest/target.sh"
CONTROL=$(mktemp -u "${TMPDIR:-/tmp}/nvmfd-XXXXXX.sock")
export DISKS=$WORK/disks TARGET_ADDR=10.8.0.1
ulimit -l unlimited 2>/dev/null || true
mkdir -p "$WORK/ask" "$DISKS"
nvmfd_prefix=(setpriv --pdeathsig KILL --)
capture_pid=

# Here every disk is a file: no modules, no devices of the machine are touched.
disk_make() {
    disk_path=$DISKS/${1%%:*}${1#*:}
    disk_buffered=false
    case $1 in
    brd:* | loop:* | file:*) ;;
    pagefile:*) disk_buffered=true ;;
    *) fail "outside of the machine there is no disk $1" ;;
    esac
    [ ! -e "$disk_path" ] || fail "there is a disk $1 already"
    truncate -s "${1#*:}M" "$disk_path"
}
disks_remove() { rm -rf "${DISKS:?}"/*; }

# wire_up, wire_down: this end of the wire. A route goes with its interface.
wire_up() {
    ip link set tap0 up
    [ "$TOPOLOGY" = tap ] || ip route replace 10.8.1.0/24 via 10.8.0.2
}
wire_down() { ip link set tap0 down; }
wire_cut() {
    wire_down
    sleep "$1"
    wire_up
}
wire_mtu() { ip link set tap0 mtu "$1"; }

# capture_start FILE: all RDMA on the wire, as pcap. capture_stop ends it,
# capture_check FILE checks every frame's integrity check (see frames.py),
# capture_decode FILE has Wireshark look for frames that it cannot make sense of.
capture_start() {
    setpriv --pdeathsig KILL -- tcpdump -i tap0 -B 32768 -U -w "$1" udp port 4791 2>"$1.err" &
    capture_pid=$!
    until_true 10 grep -q "listening on" "$1.err" || fail "tcpdump: $(cat "$1.err")"
}
capture_stop() {
    sleep 1
    kill -INT "$capture_pid"
    wait "$capture_pid" || true
    capture_pid=
    grep -q '^0 packets dropped' "$OUT"/*.pcap.err || fail "tcpdump missed packets: $(cat "$OUT"/*.pcap.err)"
}
capture_check() {
    python3 "$WORK/guest/frames.py" "$1" || fail "not every integrity check is right"
}
capture_decode() {
    local bad
    bad=$(tshark -r "$1" -Y '_ws.malformed || _ws.expert.severity == error || !infiniband' 2>/dev/null)
    [ -z "$bad" ] || fail "frames that make no sense: $(head -n 3 <<<"$bad")"
    tshark -r "$1" -q -z io,phs 2>/dev/null
}

at_end() {
    local status=$?
    trap - ERR EXIT
    set +e
    [ -z "$target_pid" ] || kill -KILL "$target_pid"
    [ -z "$capture_pid" ] || kill -KILL "$capture_pid"
    rm -f "$CONTROL"
    answer "$status"
    touch "$WORK/ask/gone"
}
answer() {
    [ -n "$ask" ] || return 0
    echo "$1" >"$ask.new"
    mv "$ask.new" "$ask.status"
    ask=
}
ask=
trap 'echo "FAILED: status $? from \"$BASH_COMMAND\" (${BASH_SOURCE[0]##*/}:$LINENO)"' ERR
trap at_end EXIT

ip link set lo up
ip tuntap add dev tap0 mode tap
ip link set tap0 mtu 9000
ip address add 10.8.0.1/24 dev tap0
wire_up
echo ready
while read -r name; do
    ask=$WORK/ask/$name
    exec >"$ask.output" 2>&1
    . "$ask"
    answer 0
done
