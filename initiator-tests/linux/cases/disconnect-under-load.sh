#: disconnecting under load ends the load with errors, and the next connect works
#: seconds 90
target_up ram:128
host_connect --nr-io-queues 2
load_start away --rw=randrw --bs=16k --iodepth=16 --size=32m --time_based --runtime=60
host_disconnect
if wait $load_pid; then fail "fio saw no error when its disk went away"; fi
host_connect --nr-io-queues 2
verify_run after --bs=4k --iodepth=8 --size=2m
host_disconnect
