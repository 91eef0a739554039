#: a namespace whose every command takes 20 s holds up neither another one, nor admin commands, nor a host that connects
#: targets nvmfd
#: multipath off
#: seconds 240
target_up -x '[[subsystem.namespace]]
ram = "64MiB"
inject = { delay_ms = 20000 }' ram:128
host_connect --nr-io-queues 2
until_true 10 host_disk 1 || fail "the fast namespace did not come"
fast=$DEV
rate() {
    load_run "$1" --rw=randread --bs=4k --iodepth=8 --time_based --runtime=5 --output-format=terse --terse-version=3
    awk -F ';' '/^3;/ { print int($8) }' "$OUT/fio-$1.txt" >"$OUT/rate"
    say "$(cat "$OUT/rate") reads a second"
}
# The host looks for partitions, which takes it one command or two.
until_true 90 host_disk 2 || fail "the slow namespace did not come"
slow=$DEV DEV=$fast
rate alone
alone=$(cat "$OUT/rate")
DEV=$slow
load_start slow --rw=randread --bs=4k --iodepth=16 --number_ios=32 --size=64m
slow_pid=$load_pid DEV=$fast
# A machine that does something else meanwhile halves a rate as well, but hardly three times.
beside=0
for try in 1 2 3; do
    rate "beside-$try"
    beside=$(cat "$OUT/rate")
    ((beside * 2 > alone)) && break
done
((beside * 2 > alone)) || fail "$alone reads a second alone, $beside beside the slow namespace"

# within SECONDS COMMAND...
within() {
    local began seconds=$1
    shift
    began=$SECONDS
    "$@"
    ((SECONDS - began <= seconds)) || fail "$* took $((SECONDS - began)) s"
}
within 5 nvme id-ctrl "/dev/$CTRL" >/dev/null
within 5 target_tell list namespaces
within 10 host_connect_as nqn.2026-11.io.nvmfd:host3 33333333-2222-4333-8444-555555555555 1
within 10 load_run third --rw=randread --bs=4k --iodepth=4 --size=4m
kill -0 $slow_pid || fail "the slow commands ended early"
load_pid=$slow_pid
load_ok
# The daemon counts from the beginning of a turn of its loop, which is a little before. In which unit fio
# tells it hangs on how much the times differ.
expect_match "clat \\((msec\\): min=|usec\\): min=)(199[0-9]{2}|20[0-9]{3})k?,|clat \\(sec\\): min=(19|20)" "$(cat "$OUT/fio-slow.txt")" "time that the slow commands took"
two_each() { [ "$(host_disks | wc -l)" = 4 ]; }
until_true 90 two_each || fail "the slow namespace did not come to the third host"
expect 0 "$(recoveries)" "error recoveries"
