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
echo "fio, 4 KiB random reads, depth 1 and 32; 128 KiB reads, depth 8:"
load_run r1 --rw=randread --bs=4k --iodepth=1 --time_based --runtime=3
load_run r32 --rw=randread --bs=4k --iodepth=32 --time_based --runtime=3
load_run r128 --rw=read --bs=128k --iodepth=8 --time_based --runtime=3
grep -hE 'IOPS=' "$OUT"/fio-r*.txt | sed 's/^ */    /'
host_disconnect
echo "All data came back as written."
