#: the wire is cut for ten seconds under load; the host comes back by itself and no acknowledged write is lost
#: topologies routed
#: providers soft
#: core
#: seconds 150
target_up brd:512
host_connect --nr-io-queues 2
load_start cut --rw=randwrite --bs=8k --iodepth=16 --size=48m --rate=,4m --verify=crc32c --verify_fatal=1 --do_verify=1
impair both loss 100%
sleep 10
impair none
say "$(host_state)"
until_true 60 host_is live || fail "the host did not come back: $(host_state)"
say "live"
load_ok
say "$(recoveries) messages of error recovery"
host_disconnect
