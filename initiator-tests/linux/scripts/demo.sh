#: a disk of the target becomes a disk of the host, and keeps what is written to it
#: seconds 180
load ext4
echo "Target: $TARGET on $TARGET_ADDR:4420, kernel $(uname -r)"
target_up file:256
host_discover | grep -E 'traddr|trsvcid|subnqn' | sed 's/^/    /'
echo "Host:   nvme connect -t rdma -a $TARGET_ADDR -s 4420 -n $NQN"
host_connect --nr-io-queues 2 | sed 's/^/    /'
host_find
lsblk -dno NAME,SIZE,MODEL "$DEV" | sed 's/^/    /'
echo "ext4 on $DEV, files copied, unmounted, mounted again, checksums compared, fsck:"
filesystem_check "mkfs.ext4 -q -F" "fsck.ext4 -f -n" 2>&1 | sed 's/^/    /'
echo "fio, 4 KiB random writes read back and compared by checksum:"
verify_run verify --bs=4k --iodepth=16 --size=16m
grep -E 'IOPS=' "$OUT/fio-verify.txt" | sed 's/^ */    /'
echo "fio, three seconds each:"
# measure LABEL MODE BLOCKSIZE DEPTH
measure() {
    load_run "$2-$3-$4" --rw="$2" --bs="$3" --iodepth="$4" --time_based --runtime=3
    printf '    %-32s %s\n' "$1:" "$(sed -n 's/^.*\(IOPS=[^(]*\).*/\1/p' "$OUT/fio-$2-$3-$4.txt")"
}
measure "4 KiB random reads, depth 1" randread 4k 1
measure "4 KiB random reads, depth 32" randread 4k 32
measure "128 KiB reads in order, depth 8" read 128k 8
host_disconnect
echo "All data came back as written."
