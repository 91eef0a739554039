#: single commands from nvme-cli: write, read, and their limits
target_up ram:64
host_connect --nr-io-queues 1
block=$(cat "/sys/block/${DEV##*/}/queue/logical_block_size")
random_file /tmp/pattern 1
for bytes in 4096 65536 131072; do
    nvme write "$DEV" --start-block=64 --block-count=$((bytes / block - 1)) --data-size=$bytes --data=/tmp/pattern
    nvme read "$DEV" --start-block=64 --block-count=$((bytes / block - 1)) --data-size=$bytes --data=/tmp/back
    cmp -n $bytes /tmp/pattern /tmp/back
done
if nvme read "$DEV" --start-block=$((64 * 1048576 * 16 / block)) --block-count=0 --data-size="$block" --data=/tmp/back >"$OUT/answer" 2>&1; then
    fail "a read past the end succeeded"
fi
# The kernel's target lets the block layer find out, and says Internal Error.
[ "$TARGET" = nvmet ] || expect_match "LBA" "$(cat "$OUT/answer")" "read past the end"
host_disconnect
