#: packets are as long as the network carries, with MTU 1500, 4200 and 9000; a host that asks for more is refused
#: topologies routed
#: providers soft
#: core
#: seconds 150
target_up ram:256
# MTU and the payload that RDMA makes of it.
while read -r mtu payload; do
    say "MTU $mtu"
    wire_mtu "$mtu"
    outside capture_start "$OUT/$mtu.pcap"
    host_connect --nr-io-queues 2
    verify_run "mtu-$mtu-4k" --bs=4k --iodepth=16 --size=2m
    verify_run "mtu-$mtu-128k" --bs=128k --iodepth=4 --size=4m
    host_disconnect
    outside capture_stop
    frames=$(outside capture_check "$OUT/$mtu.pcap")
    echo "$frames"
    # Base header, extended header of a first or a read response packet, integrity check.
    expect_match "$TARGET_ADDR > $HOST_ADDR: .* longest $((12 + 16 + payload + 4))$" "$frames" "from the target"
    expect_match "$HOST_ADDR > $TARGET_ADDR: .* longest $((12 + 4 + payload + 4))$" "$frames" "from the host"
    rm "$OUT/$mtu.pcap"
done <<<"1500 1024
4200 4096
9000 4096
2300 2048"
say "host 9000, target 1500"
wire_mtu 9000 1500
if nvme connect -t rdma -a "$TARGET_ADDR" -s 4420 -w "$HOST_ADDR" -n "$NQN" >"$OUT/answer" 2>&1; then
    fail "a host that asks for longer packets than can pass got in"
fi
dmesg | grep -i nvme | tail -n 2
expect_match "host wants 4096 bytes, more than the way" "$(grep refused "$OUT/target.log")" "reason in the daemon's log"
wire_mtu 9000
