#: an NVMe namespace of the target machine is served by commands, past the block layer
#: machines qemu
#: providers verbs
#: targets nvmfd
#: disk nvme
#: seconds 180
load nvme
until_true 10 test -c /dev/ng0n4 || fail "the machine has no NVMe namespaces"
target_up /dev/ng0n1
host_connect --nr-io-queues 2
expect "$(blockdev --getsize64 /dev/nvme0n1)" "$(blockdev --getsize64 "$DEV")" "size"
verify_run commands --bs=16k --iodepth=8 --size=8m
# More than the device takes with one command.
verify_run large --bs=1m --iodepth=4 --size=32m
load ext4
filesystem_check "mkfs.ext4 -q -F" "fsck.ext4 -f -n"
[ "$(lsblk -ndo MOUNTPOINT /dev/nvme0n1)" = "" ] || fail "it is mounted"
mount -t ext4 /dev/nvme0n1 /mnt 2>/dev/null && fail "what is served can be mounted beside"
blkdiscard -z -o 1m -l 3m "$DEV"
expect 0 "$(dd if="$DEV" bs=1M skip=1 count=3 iflag=direct status=none | tr -d '\0' | wc -c)" "bytes left after zeroing"
host_disconnect
