#: the daemon's interface goes down for ten seconds under load and loses its routes; the host comes back by itself and no acknowledged write is lost
#: machines qemu
#: topologies tap
#: providers soft
#: seconds 150
# User-Mode Linux' network driver holds on to packets that it cannot send, and
# its RDMA device waits for them.
target_up brd:512
host_connect --nr-io-queues 2
load_start down --rw=randwrite --bs=8k --iodepth=16 --size=48m --rate=,4m --verify=crc32c --verify_fatal=1 --do_verify=1
outside wire_cut 10
say "$(host_state)"
until_true 60 host_is live || fail "the host did not come back: $(host_state)"
say "live"
load_ok
say "$(recoveries) messages of error recovery"
host_disconnect
