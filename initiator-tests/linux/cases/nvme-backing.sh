#: an NVMe disk of the target machine is served whole
#: machines qemu
#: providers verbs
#: disk nvme
#: seconds 120
load nvme
until_true 10 test -b /dev/nvme0n1 || fail "the machine has no NVMe disk"
target_up /dev/nvme0n1
host_connect --nr-io-queues 2
[ "$DEV" != /dev/nvme0n1 ] || fail "the disk itself was taken for the remote one"
expect "$(blockdev --getsize64 /dev/nvme0n1)" "$(blockdev --getsize64 "$DEV")" "size"
verify_run nvme --bs=16k --iodepth=8 --size=8m
load ext4
filesystem_check "mkfs.ext4 -q -F" "fsck.ext4 -f -n"
host_disconnect
