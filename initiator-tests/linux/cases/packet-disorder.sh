#: what is written comes back when packets overtake each other, come twice, come late, or come damaged
#: topologies routed
#: providers soft
#: seconds 240
target_up ram:256
host_connect --nr-io-queues 1
# One command at a time where the host cannot stand to repeat one (see packet-loss),
# which it does for want of time alone when its machine is emulated and busy.
depth=16
[ "$MACHINE" = uml ] || depth=1
try() {
    local name=$1
    shift
    impair both "$@"
    verify_run "$name-4k" --bs=4k --iodepth=$depth --size=$((depth * 64))k
    verify_run "$name-128k" --bs=128k --iodepth=$depth --size=$((depth * 512))k
    say "$(recoveries) messages of error recovery"
}
try twice duplicate 2%
try late delay 2ms
expect 0 "$(recoveries)" "error recoveries with nothing lost and all in order"
try overtaking delay 1ms reorder 1%
try damaged corrupt 0.2%
try all delay 1ms reorder 0.5% duplicate 0.5% loss 0.3% corrupt 0.1%
expect 0 "$(gave_up)" "connections that the daemon gave up"
impair none
host_disconnect
