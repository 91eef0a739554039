#: twenty discovers, back to back, all succeed
#: core
target_up ram:64
for ((i = 1; i <= 20; i++)); do
    expect_match "subnqn: +$NQN" "$(host_discover)" "discovery $i of 20"
done
