#: the target is killed under load and comes back; the host reconnects by itself and no acknowledged write is lost
#: core
#: seconds 150
target_up brd:512
host_connect --nr-io-queues 2
load_start killed --rw=randwrite --bs=8k --iodepth=16 --size=48m --rate=,4m --verify=crc32c --verify_fatal=1 --do_verify=1
say crash
target_crash
until_true 20 host_is connecting || fail "the host did not notice: $(host_state)"
sleep 2
target_again
until_true 40 host_is live || fail "the host did not come back: $(host_state)"
say "live again"
load_ok
host_disconnect
