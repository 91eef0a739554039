#: flush and forced unit access writes succeed, and data is on the disk behind after them
target_up loop:64
host_connect --nr-io-queues 1
random_file /tmp/pattern 1
dd if=/tmp/pattern of="$DEV" bs=64k conv=fsync status=none
nvme flush "$DEV" -n 1
cmp -n 1048576 /tmp/pattern "$DISKS/loop64"
load_run fsync --rw=randwrite --bs=4k --iodepth=1 --fsync=1 --size=1m
load_run sync --rw=randwrite --bs=4k --iodepth=4 --sync=1 --size=1m
host_disconnect
