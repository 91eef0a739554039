#!/bin/bash
# Runs one case in the guest: environment CASE (its name), OUT (folder for what
# it leaves), WORK; the functions of target.sh and host.sh are at its hand.
# Exit status 0: passed; 77: skipped, the last line of output says why.
set -Eeuo pipefail
. "$WORK/environment"
. "$WORK/guest/common.sh"
. "$WORK/guest/topology.sh"
. "$WORK/guest/target.sh"
. "$WORK/guest/host.sh"
DISKS=/run/target
case $TOPOLOGY in tap | routed) . "$WORK/guest/wire.sh" && DISKS=$WORK/disks ;; esac

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

mkdir -p /mnt/data "$DISKS"
. "$WORK/cases/$CASE.sh"
