#: of two hosts under load one loses its right to the subsystem: it is cut off, and the other notices nothing
#: targets nvmfd
#: multipath off
#: seconds 90
first=$(cat /etc/nvme/hostnqn) second=nqn.2026-11.io.nvmfd:host2 id=22222222-2222-4333-8444-555555555555
target_up -a "$first" -a "$second" ram:128
host_connect_as "$first" "$(cat /etc/nvme/hostid)" 2
stays=$CTRL
load_start stays --rw=randwrite --bs=4k --iodepth=8 --size=64m --rate=,3m --verify=crc32c --verify_fatal=1 --do_verify=1
stays_pid=$load_pid
host_connect_as "$second" $id 2
load_start goes --rw=randread --bs=4k --iodepth=8 --offset=64m --size=32m --time_based --runtime=200
say "the right is taken"
target_tell remove host "$NQN" "$second"
cut_off() { ! host_is live; }
until_true 10 cut_off || fail "the host is still connected"
# Newer kernels give up when they are told not to come again, older ones ask every second.
sleep 3
cut_off || fail "the host is connected again"
say "it is cut off"
nvme disconnect -d "$CTRL" >/dev/null || true
if wait $load_pid; then fail "fio saw no error when its host was cut off"; fi
if host_ask_as "$second" $id 2; then fail "the host connected without the right"; fi
kill -0 $stays_pid || fail "the other's load ended early: $(head -n 3 "$OUT/fio-stays.err")"
load_pid=$stays_pid
load_ok
if dmesg | grep -E "$stays: .*(timeout|recover|[Rr]econnect)"; then fail "the other had to recover"; fi
say "and back"
target_tell add host "$NQN" "$second"
host_connect_as "$second" $id 1
verify_run back --bs=4k --iodepth=8 --size=1m
nvme disconnect -d "$CTRL"
nvme disconnect -d "$stays"
