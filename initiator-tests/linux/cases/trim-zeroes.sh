#: blkdiscard, write-zeroes and dataset management succeed and read back as they should
#: seconds 90
target_up loop:128
host_connect --nr-io-queues 1
random_file /tmp/pattern 4
dd if=/tmp/pattern of="$DEV" bs=1M oflag=direct status=none
all_zero() { cmp -s -n "$3" <(dd if="$DEV" bs=4k skip=$(($1 / 4096)) count=$(($2 / 4096)) iflag=direct status=none) /dev/zero; }
block=$(cat "/sys/block/${DEV##*/}/queue/logical_block_size")

say write-zeroes
nvme write-zeroes "$DEV" --start-block=0 --block-count=$((65536 / block - 1))
all_zero 0 65536 65536 || fail "write-zeroes left data"
cmp <(dd if="$DEV" bs=4k skip=16 count=16 iflag=direct status=none) <(dd if=/tmp/pattern bs=4k skip=16 count=16 status=none)

say blkdiscard --zeroout
blkdiscard --zeroout --offset 1048576 --length 1048576 "$DEV"
all_zero 1048576 1048576 1048576 || fail "blkdiscard --zeroout left data"

say dsm
nvme dsm "$DEV" --ad --slbs=$((2097152 / block)) --blocks=$((65536 / block))
# Deallocated blocks read as zeroes or as before, the rest as before.
cmp <(dd if="$DEV" bs=4k skip=528 count=16 iflag=direct status=none) <(dd if=/tmp/pattern bs=4k skip=528 count=16 status=none)

say blkdiscard
blkdiscard --offset 3145728 --length 1048576 "$DEV"
dd if=/tmp/pattern of="$DEV" bs=1M skip=3 seek=3 count=1 oflag=direct status=none
cmp <(dd if="$DEV" bs=1M skip=3 count=1 iflag=direct status=none) <(dd if=/tmp/pattern bs=1M skip=3 status=none)
host_disconnect
