#: every frame of a session has the right integrity check, and a decoder understands all
#: topologies tap routed
#: providers soft
#: core
#: seconds 120
target_up ram:256
outside capture_start "$OUT/session.pcap"
host_discover >/dev/null
host_connect --nr-io-queues 2
verify_run small --bs=512 --iodepth=8 --size=128k
verify_run medium --bs=4k --iodepth=16 --size=2m
verify_run large --bs=1m --iodepth=4 --size=8m
verify_run mixed --bsrange=512-128k --iodepth=16 --size=4m
nvme write-zeroes "$DEV" --start-block=0 --block-count=63
nvme flush "$DEV" -n 1
nvme reset "/dev/$CTRL"
until_true 20 host_is live || fail "not live after reset: $(host_state)"
host_disconnect
outside capture_stop
outside capture_check "$OUT/session.pcap"
# With the largest packets no structure of NVMe is split, which the decoder could not follow.
layers=$(outside capture_decode "$OUT/session.pcap")
echo "$layers"
expect_match "nvme" "$layers" "layers that the decoder found"
rm "$OUT/session.pcap"
