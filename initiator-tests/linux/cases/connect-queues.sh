#: a host connects with one and two I/O queues, and gets as many
#: topologies veth siw
#: core
target_up ram:64
for queues in 1 2; do
    # A host makes no more of these than it has processors.
    ((queues <= $(nproc))) || continue
    host_connect --nr-io-queues $queues
    expect $((queues + 1)) "$(cat "/sys/class/nvme/$CTRL/queue_count")" "queues with the admin queue"
    load_run "read-$queues" --rw=randread --bs=4k --iodepth=4 --numjobs=$queues --size=8m --io_size=1m
    host_disconnect
done
