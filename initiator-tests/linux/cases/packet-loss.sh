#: what is written comes back when the network loses 0.1, 1 and 5 % of packets, and the daemon never gives up
#: topologies routed
#: providers soft
#: core
#: seconds 240
# Linux' soft-RoCE repeats registrations of memory along with a lost command, which
# ends the connection when more than one command is under way, whoever the target
# is: so only with one at a time is no error recovery of the host expected.
target_up ram:256
host_connect --nr-io-queues 1
for percent in 0.1 1; do
    impair both loss $percent%
    verify_run "single-$percent" --bs=4k --iodepth=1 --size=512k
    verify_run "single-large-$percent" --bs=128k --iodepth=1 --size=4m
    expect 0 "$(recoveries)" "error recoveries of the host with $percent % lost, one command at a time"
done
for percent in 0.1 1 5; do
    impair to_host loss $percent%
    verify_run "to-host-$percent" --bs=64k --iodepth=8 --size=8m
    (($(impaired) > 0)) || fail "the network lost nothing"
    say "$(impaired) lost, $(recoveries) messages of error recovery"
done
for percent in 0.1 1 5; do
    impair both loss $percent%
    verify_run "both-$percent" --bs=16k --iodepth=8 --size=2m
    say "$(impaired) lost, $(recoveries) messages of error recovery"
done
expect 0 "$(gave_up)" "connections that the daemon gave up"
impair none
host_disconnect
