#: nvme discover lists the subsystem with the address and port asked
#: topologies veth loop siw
#: core
target_up ram:64
log=$(host_discover)
echo "$log"
expect_match "subnqn: +$NQN" "$log" "discovery log"
expect_match "traddr: +$TARGET_ADDR" "$log" "discovery log"
expect_match "trsvcid: +4420" "$log" "discovery log"
expect_match "trtype: +rdma" "$log" "discovery log"
expect_match "subtype: +nvme subsystem" "$log" "discovery log"
