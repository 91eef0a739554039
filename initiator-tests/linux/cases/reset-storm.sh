#: thirty controller resets one after the other under load lose and corrupt nothing
#: targets nvmfd
#: seconds 120
target_up brd:512
host_connect --nr-io-queues 2
load_start storm --rw=randwrite --bs=4k --iodepth=32 --size=64m --rate=,4m --verify=crc32c --verify_fatal=1 --do_verify=1
for ((i = 1; i <= 30; i++)); do
    nvme reset "/dev/$CTRL" || fail "reset $i"
done
until_true 20 host_is live || fail "not live after the storm: $(host_state)"
say "30 resets"
kill -0 $load_pid || fail "the load ended before the storm did"
load_ok
expect 1 "$(target_tell list connections --json | grep -o '"cntlid"' | wc -l)" "controllers that the daemon knows"
host_disconnect
