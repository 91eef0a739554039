#!/bin/bash
# Runs one case in the guest: environment CASE (its name), OUT (folder for what
# it leaves), WORK; the functions of target.sh and host.sh are at its hand.
# Exit status 0: passed; 77: skipped, the last line of output says why.
set -Eeuo pipefail
. "$WORK/environment"
. "$WORK/guest/topology.sh"
. "$WORK/guest/target.sh"
. "$WORK/guest/host.sh"

# Log a line with the guest's uptime.
say() { echo "[$(cut -d' ' -f1 /proc/uptime)] $*"; }

# End the case as failed.
fail() {
    echo "FAILED: $*"
    exit 1
}

# End the case as not applicable here.
skip() {
    echo "$*"
    exit 77
}

# until_true SECONDS COMMAND...: try until it succeeds or time is over.
until_true() {
    local left=$(($1 * 10))
    shift
    until "$@" 2>/dev/null; do
        ((left-- > 0)) || return 1
        sleep 0.1
    done
}

# expect WANTED GOT WHAT
expect() { [ "$1" = "$2" ] || fail "$3: expected '$1', got '$2'"; }

# expect_match PATTERN TEXT WHAT
expect_match() { grep -qE -- "$1" <<<"$2" || fail "$3: nothing like '$1' in: $2"; }

# A file of random data: random_file PATH MIB
random_file() { dd if=/dev/urandom of="$1" bs=1M count="$2" status=none; }

at_exit() {
    local status=$?
    trap - ERR EXIT
    set +e
    [ $status = 0 ] || say "status $status; leaving"
    mountpoint -q /mnt/data && umount -l /mnt/data
    # A host that cannot reach its target waits for it: remove the host first.
    timeout 30 nvme disconnect-all >/dev/null 2>&1
    if ! target_down && [ $status = 0 ]; then
        echo "FAILED: the target did not end cleanly"
        status=1
    fi
    exit $status
}
trap 'echo "FAILED: status $? from \"$BASH_COMMAND\" (${BASH_SOURCE[0]##*/}:$LINENO)"' ERR
trap at_exit EXIT

mkdir -p /mnt/data /run/target
. "$WORK/cases/$CASE.sh"
