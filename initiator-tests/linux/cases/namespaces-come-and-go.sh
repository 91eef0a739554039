#: a hundred namespaces come and go while load runs on another one, which sees no error
#: targets nvmfd
#: seconds 150
more() { printf '[[subsystem.namespace]]\nnsid = %d\nram = "1MiB"\n' $(seq 2 101); }
long=25
[ "$MACHINE" = uml ] || long=150
target_up ram:128
host_connect --nr-io-queues 2
load_start steady --rw=randwrite --bs=4k --iodepth=8 --size=64m --verify=crc32c --verify_backlog=256 --verify_fatal=1 --time_based --runtime=$long
say "a hundred come, by a new configuration"
target_reload "$(more)"
until_true 60 host_has_disks 101 || fail "$(host_disks | wc -l) disks came, not 101"
say "and go"
target_reload ""
until_true 60 host_has_disks 1 || fail "$(host_disks | wc -l) disks are left, not 1"
say "ten come and go one by one, by the control socket"
for nsid in {201..210}; do
    target_tell add namespace "$NQN" --ram 1MiB --nsid "$nsid"
    ((nsid % 2 == 0)) || target_tell remove namespace "$NQN" "$nsid"
done
until_true 20 host_has_disks 6 || fail "$(host_disks | wc -l) disks are there, not 6"
for nsid in 202 204 206 208 210; do target_tell remove namespace "$NQN" "$nsid"; done
until_true 20 host_has_disks 1 || fail "$(host_disks | wc -l) disks are left, not 1"
kill -0 $load_pid || fail "the load ended before the changes did"
load_ok
expect 0 "$(recoveries)" "error recoveries"
host_disconnect
