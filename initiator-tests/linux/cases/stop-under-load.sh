#: SIGTERM under load ends the daemon with status 0 within 10 s
#: targets nvmfd
#: seconds 90
target_up ram:128
host_connect --nr-io-queues 2
load_start stop --rw=randrw --bs=16k --iodepth=32 --size=64m --time_based --runtime=60
target_down || fail "SIGTERM under load"
say "the daemon is gone"
nvme disconnect -n "$NQN" >/dev/null
wait $load_pid || true
