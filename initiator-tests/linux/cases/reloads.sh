#: fifty reloads add and remove namespaces while load runs on another one, which sees no error
#: targets nvmfd
#: seconds 150
others() { printf '[[subsystem.namespace]]\nnsid = %d\nram = "1MiB"\n' 2 3 4; }
long=30
[ "$MACHINE" = uml ] || long=110
target_up ram:128
host_connect --nr-io-queues 2
load_start steady --rw=randwrite --bs=4k --iodepth=8 --size=64m --verify=crc32c --verify_backlog=256 --verify_fatal=1 --time_based --runtime=$long
for round in {1..25}; do
    target_reload "$(others)"
    ((round > 1)) || until_true 20 host_has_disks 4 || fail "the disks of a reload do not come"
    target_reload ""
done
until_true 20 host_has_disks 1 || fail "$(host_disks | wc -l) disks are left, not 1"
kill -0 $load_pid || fail "the load ended before the reloads did"
load_ok
expect 0 "$(recoveries)" "error recoveries"
host_disconnect
