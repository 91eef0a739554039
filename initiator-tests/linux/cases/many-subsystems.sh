#: two hundred subsystems are discovered and connected by connect-all, and all are left by disconnect-all
#: targets nvmfd
#: seconds 240
count=200
more() {
    local i
    for ((i = 2; i <= count; i++)); do
        printf '[[subsystem]]\nnqn = "%s-%d"\nallow_any_host = true\nnamespace = [{ null = "1MiB" }]\n' "$NQN" "$i"
    done
}
target_up -x "$(more)" null:1
expect $count "$(host_discover | grep -c "^subnqn: *$NQN")" "subsystems discovered"
say connect-all
nvme connect-all -t rdma -a "$TARGET_ADDR" -s 4420 -w "$HOST_ADDR" --nr-io-queues 1 --queue-size 16
say connected
# each FILE: what it says in each controller of ours.
each() {
    local ours
    ours=$(grep -l "^$NQN" /sys/class/nvme/nvme*/subsysnqn 2>/dev/null) || return 0
    cat ${ours//subsysnqn/$1}
}
expect $count "$(each subsysnqn | sort -u | wc -l)" "subsystems connected"
expect $count "$(each state | grep -c live)" "controllers that are live"
disks() { grep -l "^$NQN" /sys/block/nvme*n*/device/subsysnqn | grep -cv 'c[0-9]*n' || true; }
all_disks() { [ "$(disks)" = $count ]; }
until_true 60 all_disks || fail "$(disks) of $count disks came"
for file in $(grep -l "^$NQN" /sys/block/nvme*n*/device/subsysnqn | grep -v 'c[0-9]*n'); do
    disk=${file#/sys/block/}
    dd if="/dev/${disk%%/*}" of=/dev/null bs=4k count=1 iflag=direct status=none
done
say "every disk was read"
# A slow machine asks its discovery controller nothing for minutes, and has to let go of that one.
expect $count "$(each state | grep -c live)" "controllers that are still live"
nvme disconnect-all
say disconnected
expect 0 "$(each subsysnqn | wc -l)" "controllers after disconnect-all"
