# The Linux host: connecting, finding its devices, and putting load on them.

# host_discover: the discovery log, as text.
host_discover() {
    nvme discover -t rdma -a "$TARGET_ADDR" -s 4420 -w "$HOST_ADDR" "$@"
}

# host_connect [nvme connect options]: connects to NQN and sets CTRL (nvme0),
# DEV (/dev/nvme0n1: the first namespace). A lost target is looked for every
# second for two minutes.
host_connect() {
    nvme connect -t rdma -a "$TARGET_ADDR" -s 4420 -w "$HOST_ADDR" -n "$NQN" \
        --reconnect-delay 1 --ctrl-loss-tmo 120 "$@"
    until_true 10 host_find || fail "no block device came after connecting"
    say "connected: $CTRL, $DEV, $(cat "/sys/class/nvme/$CTRL/queue_count") queues"
}

# Only the devices of our subsystem: the machine may have an NVMe disk itself.
host_find() {
    local entry
    CTRL='' DEV=''
    for entry in /sys/class/nvme/nvme*; do
        [ "$(cat "$entry/subsysnqn" 2>/dev/null)" != "$NQN" ] || CTRL=${entry##*/}
    done
    for entry in /sys/block/nvme*n*; do
        [ "$(cat "$entry/hidden" 2>/dev/null)" = 0 ] || continue
        [ "$(cat "$entry/device/subsysnqn" 2>/dev/null)" != "$NQN" ] || { DEV=/dev/${entry##*/} && break; }
    done
    [ -n "$CTRL" ] && [ -b "$DEV" ]
}

# host_disks: the names of the disks of NQN.
host_disks() {
    local entry hidden nqn
    for entry in /sys/block/nvme*n*; do
        read -r hidden 2>/dev/null <"$entry/hidden" && [ "$hidden" = 0 ] || continue
        read -r nqn 2>/dev/null <"$entry/device/subsysnqn" || continue
        [ "$nqn" != "$NQN" ] || echo "${entry##*/}"
    done
}
# host_disk NSID: sets DEV to the disk of this namespace. The number in a disk's name
# is another one: newer kernels look at namespaces in no order.
host_disk() {
    local disk nsid
    for disk in $(host_disks); do
        read -r nsid <"/sys/block/$disk/nsid"
        [ "$nsid" != "$1" ] || { DEV=/dev/$disk && [ -b "$DEV" ] && return 0; }
    done
    return 1
}
host_has_disks() { [ "$(host_disks | wc -l)" = "$1" ]; }

# host_connect_as HOSTNQN HOSTID I/O-QUEUES: as host_connect, under another name, and DEV is the
# disk of namespace 1; for cases with multipath off, where it has disks of its own.
host_connect_as() {
    host_ask_as "$@" || fail "cannot connect as $1: $(dmesg | grep nvme | tail -n 1)"
    until_true 10 host_find_as "$1" || fail "no block device came after connecting as $1"
    say "connected as $1: $CTRL, $DEV"
}
# To the kernel itself: versions of nvme-cli take the name of another host for the same one.
host_ask_as() {
    local words=transport=rdma,traddr=$TARGET_ADDR,trsvcid=4420,host_traddr=$HOST_ADDR,nqn=$NQN
    words+=,hostnqn=$1,hostid=$2,nr_io_queues=$3,reconnect_delay=1,ctrl_loss_tmo=120
    echo "$words" >/dev/nvme-fabrics
}
host_find_as() {
    local entry
    CTRL='' DEV=''
    for entry in /sys/class/nvme/nvme*; do
        [ "$(cat "$entry/subsysnqn" "$entry/hostnqn" 2>/dev/null)" != "$NQN"$'\n'"$1" ] || CTRL=${entry##*/}
    done
    for entry in "/sys/class/nvme/$CTRL/$CTRL"n*; do
        [ "$(cat "$entry/nsid" 2>/dev/null)" != 1 ] || DEV=/dev/${entry##*/}
    done
    [ -b "$DEV" ]
}

host_disconnect() {
    nvme disconnect -n "$NQN" | grep -q 'disconnected 1 controller' || fail "disconnect found no controller"
    ! host_find || fail "the device is still there after disconnecting"
}

host_state() { cat "/sys/class/nvme/$CTRL/state"; }
host_is() { [ "$(host_state)" = "$1" ]; }

# recoveries: how often the host gave up on a command or a connection in this case.
recoveries() { dmesg | grep -cE 'nvme.*(timeout|error recovery|[Rr]econnect)' || true; }

# load_run NAME fio-options...: runs fio on DEV; its errors and mismatches fail the case.
load_run() {
    local name=$1
    shift
    say "fio $name"
    fio --name="$name" --filename="$DEV" --ioengine=io_uring --direct=1 --group_reporting \
        --output="$OUT/fio-$name.txt" "$@" || {
        head -n 20 "$OUT/fio-$name.txt"
        fail "fio $name: $(grep -aiE -m 1 'verify|error|err=' "$OUT/fio-$name.txt")"
    }
}

# verify_run NAME fio-options...: random writes, each block checked by checksum.
verify_run() { load_run "$@" --rw=randwrite --verify=crc32c --do_verify=1 --verify_fatal=1; }

# load_start NAME fio-options...: as load_run, in the background; load_pid and load_ok tell.
load_start() {
    local name=$1
    shift
    fio --name="$name" --filename="$DEV" --ioengine=io_uring --direct=1 --group_reporting \
        --output="$OUT/fio-$name.txt" "$@" >"$OUT/fio-$name.err" 2>&1 &
    load_pid=$!
    sleep 2
    kill -0 $load_pid || fail "fio $name ended at once: $(head -n 3 "$OUT/fio-$name.err")"
}
load_ok() {
    wait $load_pid || fail "fio: $(grep -haiE -m 1 'verify|error|err=' "$OUT"/fio-*.txt "$OUT"/fio-*.err)"
}

# filesystem_check MKFS FSCK: a file system on DEV keeps a file through a remount.
filesystem_check() {
    local sum
    say "$1"
    $1 "$DEV"
    mount "$DEV" /mnt/data
    random_file /tmp/sample 24
    sum=$(sha256sum </tmp/sample)
    cp /tmp/sample /mnt/data/sample
    mkdir /mnt/data/many
    local i
    for i in {1..50}; do echo "$i" >"/mnt/data/many/$i"; done
    sync -f /mnt/data
    umount /mnt/data
    echo 3 >/proc/sys/vm/drop_caches
    mount "$DEV" /mnt/data
    expect "$sum" "$(sha256sum </mnt/data/sample)" "checksum after remount"
    expect 50 "$(cat /mnt/data/many/* | sort -nu | wc -l)" "small files after remount"
    umount /mnt/data
    say "$2"
    $2 "$DEV"
}
