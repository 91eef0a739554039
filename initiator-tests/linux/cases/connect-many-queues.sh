#: a host with eight processors gets its eight I/O queues and uses all
#: machines qemu
#: cpus 8
#: seconds 120
target_up -t 'max_io_queues = 8' ram:64
host_connect --nr-io-queues 8
expect 9 "$(cat "/sys/class/nvme/$CTRL/queue_count")" "queues with the admin queue"
load_run spread --rw=randrw --bs=4k --iodepth=8 --numjobs=8 --size=8m --io_size=1m --cpus_allowed=0-7 --cpus_allowed_policy=split
host_disconnect
