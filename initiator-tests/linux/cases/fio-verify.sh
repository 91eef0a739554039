#: every block written is read back whole: 512 B to 1 MiB, depth 1 and 32, four jobs
#: topologies veth siw
#: core
#: seconds 240
target_up ram:256
host_connect --nr-io-queues 2
expect 512 "$(cat "/sys/block/${DEV##*/}/queue/logical_block_size")" "block size"
jobs() { verify_run "$1" --bs="$2" --iodepth="$3" --size="$4" --numjobs=4 --offset_increment=16m; }
jobs 512-deep 512 32 256k
jobs 4k-deep 4k 32 2m
jobs 64k-deep 64k 32 8m
jobs 1m-deep 1m 32 8m
verify_run 512-single --bs=512 --iodepth=1 --size=256k
verify_run 4k-single --bs=4k --iodepth=1 --size=2m
verify_run 1m-single --bs=1m --iodepth=1 --size=16m
verify_run mixed --bsrange=512-128k --iodepth=16 --size=8m
host_disconnect
